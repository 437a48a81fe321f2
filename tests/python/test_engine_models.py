"""Training through the engine leaves the same bits as plain PyTorch: losses, parameters, buffers
and optimizer state, of the ten models of the benches, alone and side by side, with one thread and
two.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import laneway
from bench import models
from support.eager import assert_same
from support.engine import batches_of, check_model, eager_state, job_state, make_step, train

# Iterations: 30, fewer for the slow ones.
STEPS = {
    "mlp": 30,
    "cnn": 30,
    "gpt": 30,
    "gpt6": 8,
    "lstm": 30,
    "resnet18": 8,
    "vgg11": 4,
    "densenet121": 4,
    "mobilenet_v3_small": 8,
    "bert": 8,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_job_alone_equals_eager_and_replays_its_plan(name, pytestconfig):
    report = check_model(name, 0, "default", STEPS[name])
    graph = report["graphs"][0]
    # The probe, three that are counted, the one that is recorded. A thread records only what it ran
    # last itself: where caller and lane take turns, on a busy machine, it comes later.
    recorded = pytestconfig.getoption("device") != "host" and STEPS[name] > 5
    assert graph["replayed_count"] <= (STEPS[name] - 5 if recorded else 0)
    assert graph["replayed_count"] > 0 or not recorded or STEPS[name] < 30
    assert graph["iterations"] == STEPS[name]
    assert graph["probes"] == 1 and graph["off_tape_count"] == 0
    assert graph["address_changes"] == 0
    assert graph["planned_peak_bytes"] >= graph["bound_bytes"] > 0
    late = {"bound_bytes": graph["bound_bytes"], "peak_bytes": graph["planned_peak_bytes"]}
    assert graph["forms"] == {"late": late}


@pytest.mark.parametrize("form", ["foreach", "fused"])
@pytest.mark.parametrize("name", ["mlp", "gpt", "cnn"])
def test_other_forms_of_the_optimizer_equal_eager(name, form):
    check_model(name, 0, form, 10)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm"])
def test_other_seeds_equal_eager(name, seed):
    check_model(name, seed, "default", 30)


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt", "lstm", "resnet18", "bert"])
def test_two_threads_equal_eager_with_two_threads(name):
    torch.set_num_threads(2)
    check_model(name, 0, "default", min(STEPS[name], 10))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pair", [("mlp", "cnn"), ("gpt", "lstm"), ("resnet18", "mlp")])
def test_two_jobs_side_by_side_equal_eager(pair, threads):
    """Each from a thread of its own, in lanes of their own, at the same time."""
    torch.set_num_threads(threads)
    batches = {name: batches_of(name, 3, STEPS[name]) for name in pair}
    with laneway.embedded("512MiB") as service:
        steps = {name: make_step(service, name, 3) for name in pair}
        for name in pair:
            steps[name].prepare(*batches[name][0])
        status = service.status()
        jobs = status["jobs"]  # a daemon also tells of jobs that have ended
        lanes = {line["lane"] for line in jobs if line["lane"] is not None}
        # On a busy machine it may have measured that a second lane does not pay.
        limit = status.get("lane_limit")
        assert len(lanes) == 2 or (limit is not None and limit["lanes"] < 2)
        with ThreadPoolExecutor(2) as pool:
            states = dict(zip(pair, pool.map(lambda n: train(steps[n], batches[n]), pair)))
    for name in pair:
        assert_same(eager_state(name, 3, "default", batches[name]), states[name], name)


def test_three_jobs_sharing_one_lane_equal_eager():
    """One lane: turns pass between the jobs, and their iterations interleave."""
    names = ("mlp", "cnn", "gpt")
    batches = {name: batches_of(name, 4, 12) for name in names}
    with laneway.embedded("256MiB", lanes=1) as service:
        steps = {name: make_step(service, name, 4) for name in names}
        losses = {name: [] for name in names}
        for i in range(12):
            futures = {name: steps[name].submit(*batches[name][i]) for name in names}
            for name in names:
                losses[name].append(futures[name].result().item())
        states = {name: job_state(steps[name], losses[name]) for name in names}
        assert {line["lane"] for line in service.status()["jobs"]} == {1}
    for name in names:
        assert_same(eager_state(name, 4, "default", batches[name]), states[name], name)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_many_in_flight_equal_eager(name):
    """More submissions than may be in flight, results read afterwards."""
    batches = batches_of(name, 5, 100)
    with laneway.embedded("256MiB") as service, make_step(service, name, 5) as step:
        futures = [step.submit(*batch) for batch in batches]
        state = job_state(step, [future.result().item() for future in futures])
    assert_same(eager_state(name, 5, "default", batches), state, name)


def test_eager_training_beside_a_job_disturbs_neither():
    """The process's own eager work draws from the default generator and from torch's allocator."""
    batches = batches_of("cnn", 6, 20)
    expected = eager_state("cnn", 6, "default", batches)
    with laneway.embedded("256MiB") as service, make_step(service, "cnn", 6) as step:
        step.prepare(*batches[0])
        with ThreadPoolExecutor(1) as pool:
            training = pool.submit(train, step, batches)
            beside = eager_state("cnn", 6, "default", batches)
            state = training.result()
    assert_same(expected, state, "job")
    assert_same(expected, beside, "beside")


@pytest.mark.parametrize("replay", ["auto", "on", "off"])
def test_whether_an_iteration_is_replayed_changes_no_bits(replay):
    batches = batches_of("mlp", 2, 8)
    workload = models.make("mlp", 2)
    torch.manual_seed(102)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(
            workload.model, workload.loss_fn, workload.optimizer, service, replay=replay
        )
        state = job_state(step, [step(*batch).item() for batch in batches])
        predict = laneway.inference(workload.model, service, replay=replay)
        assert predict(batches[0][0]).shape == (64, 10)
    assert_same(eager_state("mlp", 2, "default", batches), state)


def test_another_word_for_replay_is_refused():
    workload = models.make("mlp", 2)
    with pytest.raises(laneway.InvalidInput, match=r"replay = 'never': give one of 'auto', 'on'"):
        laneway.train_step(workload.model, workload.loss_fn, workload.optimizer, replay="never")
