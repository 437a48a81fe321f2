"""A device that fails while a lanewayd runs jobs on it: the worker leaves and another one takes
over; the job that broke it ends in words and is not tried again; whoever else was there goes on
with eager's bits, unless its state was being written at that time."""

import threading

import pytest
import torch

import laneway
from laneway.errors import DeviceLost, JobFailed
from support.children import check_script
from support.daemon import DEADLINE_S, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.remote_host import (
    BREAKS_AT_ONCE,
    BREAKS_WHEN_LANDING,
    LIBRARY,
    RemoteLanewayd,
    breaking,
    needs_remote_host,
)

pytestmark = needs_remote_host

SEED = 7
HOW = pytest.mark.parametrize("how", [BREAKS_AT_ONCE, BREAKS_WHEN_LANDING])


@pytest.fixture
def daemon():
    with RemoteLanewayd() as running:
        yield running


def check(batches, step, losses):
    assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses), "mlp")


def lost_workers(daemon):
    return daemon.log().count("because its device failed")


def submitted(step, batch):
    """A future, or what a job that has ended meanwhile says."""
    try:
        return step.submit(*batch)
    except JobFailed as error:
        return error


def error_of(future):
    """None: it has a result."""
    if isinstance(future, JobFailed):
        return future
    try:
        future.result(DEADLINE_S)
        return None
    except JobFailed as error:
        return error


def break_device(service, seed, how):
    """With a job of its own, which hears why it ends."""
    bad = breaking(batches_of("mlp", seed, 1)[0], how)
    step = make_step(service, "mlp", seed)
    with pytest.raises(DeviceLost, match="an input broke it") as caught:
        step(*bad)
    # As the one that ran, or, where another's work was the first to meet the broken device, as one
    # whose state was being written.
    assert "'remote host' failed while job" in str(caught.value)
    assert f"job 'mlp-{seed}'" in str(caught.value)
    with pytest.raises(DeviceLost):
        step(*bad)
    step.close()


@HOW
def test_the_job_that_breaks_the_device_ends_and_the_others_go_on(daemon, how):
    """Twice, by one job after the other."""
    batches = batches_of("mlp", SEED, 6)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = [step(*batch).item() for batch in batches[:2]]
        break_device(service, 101, how)
        losses += [step(*batch).item() for batch in batches[2:4]]
        assert lost_workers(daemon) >= 1
        break_device(service, 102, how)
        losses += [step(*batch).item() for batch in batches[4:]]
        check(batches, step, losses)
        assert lost_workers(daemon) >= 2
        assert [job["name"] for job in service.status()["jobs"]] == [f"mlp-{SEED}"]


@HOW
def test_what_was_done_before_is_answered_and_nothing_after(daemon, how):
    batches = batches_of("mlp", SEED, 4)
    batches[2] = breaking(batches[2], how)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        futures = [submitted(step, batch) for batch in batches]
        errors = [error_of(future) for future in futures]
        ended = [error for error in errors if error is not None]
        assert errors[: -len(ended)] == [None] * (4 - len(ended)), errors
        assert len(ended) >= 2 and all(isinstance(error, DeviceLost) for error in ended), errors


@HOW
def test_a_job_at_work_beside_it_is_not_blamed(daemon, how):
    """An inference, of which nothing is ever half written: it goes on, again and again."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    model.eval()
    inputs = torch.randn(16, 64)
    expected = model(inputs)
    over = threading.Event()
    answered = []

    def predict(step):
        try:
            while not over.is_set():
                for future in [step.submit(inputs) for _ in range(30)]:
                    answered.append(torch.equal(future.result(DEADLINE_S), expected))
        except BaseException as error:
            answered.append(error)

    with daemon.connect() as service, laneway.inference(model, service=service) as step:
        step(inputs)
        thread = threading.Thread(target=predict, args=(step,))
        thread.start()
        try:
            for number in range(3):
                wanted = len(answered) + 100
                break_device(service, 101 + number, how)
                wait_until(lambda n=wanted: len(answered) > n or not thread.is_alive(), "answers")
        finally:
            over.set()
            thread.join()
    assert all(answer is True for answer in answered), [a for a in answered if a is not True]


def test_a_training_at_work_beside_it_goes_on_or_says_what_was_half_written(daemon):
    batches = batches_of("mlp", SEED, 40)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        futures = [step.submit(*batch) for batch in batches]  # before anything breaks
        break_device(service, 101, BREAKS_AT_ONCE)
        try:
            losses = [future.result(DEADLINE_S).item() for future in futures]
            check(batches, step, losses)
        except JobFailed as error:
            assert isinstance(error, DeviceLost)
            assert "an input broke it" in str(error)
            assert "at that time iteration" in str(error)
            assert "state_dict" in str(error)


def test_two_jobs_that_break_it_at_the_same_time_both_end(daemon):
    batches = batches_of("mlp", SEED, 4)
    errors = []

    def broken(service, seed):
        try:
            break_device(service, seed, BREAKS_WHEN_LANDING)
        except BaseException as error:
            errors.append(error)

    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = [step(*batch).item() for batch in batches[:2]]
        threads = [threading.Thread(target=broken, args=(service, seed)) for seed in (101, 102)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        losses += [step(*batch).item() for batch in batches[2:]]
        check(batches, step, losses)


def test_an_embedded_service_is_over_with_its_device():
    check_script(
        f"""
        from support.engine import batches_of, make_step
        from support.remote_host import BREAKS_AT_ONCE, breaking
        from laneway.errors import DeviceLost

        batch = batches_of("mlp", {SEED}, 1)[0]
        def ends(call):
            try:
                call()
            except DeviceLost as error:
                assert "an input broke it" in str(error), error
                assert "open another one in a new process" in str(error), error
            else:
                raise AssertionError("it went on")

        with laneway.embedded(device="cuda:0", pool="64MiB") as service:
            guilty, other = make_step(service, "mlp", 1), make_step(service, "mlp", 2)
            for step in (guilty, other):
                step(*batch)
            ends(lambda: guilty(*breaking(batch, BREAKS_AT_ONCE)))
            ends(lambda: other(*batch))
            ends(lambda: make_step(service, "mlp", 3)(*batch))
            ends(lambda: guilty.state_dict())
        """,
        environment={"LANEWAY_CUDA_PLUGIN": str(LIBRARY)},
    )
