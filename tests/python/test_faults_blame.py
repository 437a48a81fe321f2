"""A graph that crashes, aborts or hangs its worker at a node: run again once, then its job is
quarantined, with its state as it was. Jobs beside it go on, and their states are eager PyTorch's,
bit for bit. A worker that is killed from outside blames nobody."""

import contextlib
import re
import signal
import threading

import pytest

from laneway.errors import Quarantined
from support.cli import run
from support.daemon import Lanewayd
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step

SEED = 5
OTHER = 6
STEPS = 4
NODE = 3
POINT = f"worker.node_{NODE}_of_mlp-{SEED}"


def faults(how, first, again=0):
    """The first worker dies when it passes the node for the `first`-th time, each of the `again`
    workers that follow at its first pass."""
    action = "" if how == "kill" else f"={how}"
    following = ";".join([*[f"{POINT}{action}"] * again, ""])
    return {"LANEWAY_FAULT": f"{POINT}:{first}{action}", "LANEWAY_FAULT_AGAIN": following}


def check(step, name, seed, batches, losses):
    assert_same(eager_state(name, seed, "default", batches), job_state(step, losses))


@pytest.mark.parametrize(
    ("how", "word"),
    [("segv", "SIGSEGV"), ("abrt", "SIGABRT"), ("hang", "hung"), ("exit", "exit()")],
)
def test_a_node_that_brings_its_worker_down_twice_quarantines_its_job(how, word):
    batches = batches_of("mlp", SEED, STEPS)
    others = batches_of("mlp", OTHER, STEPS)
    scale = ("--time-scale", "0.1") if how == "hang" else ()
    with (
        Lanewayd(*scale, environment=faults(how, 3, again=1)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", OTHER) as other,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches[:2]]
        other_losses = [other(*batch).item() for batch in others[:2]]
        with pytest.raises(Quarantined) as error:
            step(*batches[2])
        text = str(error.value)
        for part in (f"job 'mlp-{SEED}'", word, f"node {NODE} of graph", "2 times", "state_dict"):
            assert part in text
        with pytest.raises(Quarantined, match=re.escape(word)):
            step(*batches[3])  # at once: no worker dies of it
        other_losses += [other(*batch).item() for batch in others[2:]]
        check(other, "mlp", OTHER, others, other_losses)
        check(step, "mlp", SEED, batches[:2], losses)
        # A new worker, and a new broker, know it too.
        for kill in (daemon.active_worker, daemon.broker):
            daemon.kill(kill())
            with pytest.raises(Quarantined, match=re.escape(word)):
                step(*batches[2])
        check(step, "mlp", SEED, batches[:2], losses)


def line_of(service, step):
    (line,) = [job for job in service.status()["jobs"] if job["name"] == step.name]
    return line


def test_a_quarantined_job_is_shown_and_released():
    batches = batches_of("mlp", SEED, STEPS)
    with (
        Lanewayd(environment=faults("segv", 3, again=1)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches[:2]]
        usual = line_of(service, step)
        refused = run("release", step.name, address=daemon.address)
        assert refused.returncode == 4
        assert "is not quarantined" in refused.stderr
        with pytest.raises(Quarantined, match="laneway release"):
            step(*batches[2])
        line = line_of(service, step)
        assert line["state"] == "quarantined"
        assert line["ephemeral_bytes"] == 0 < usual["ephemeral_bytes"]
        assert line["reason"]["code"] == "quarantined"
        assert f"crashed with SIGSEGV at node {NODE}" in line["reason"]["text"]
        shown = run("jobs", address=daemon.address).stdout
        assert "quarantined" in shown and "SIGSEGV" in shown
        assert run("release", step.name, address=daemon.address).returncode == 0
        line = line_of(service, step)
        assert line["state"] != "quarantined"
        assert line["reason"] is None
        losses += [step(*batch).item() for batch in batches[2:]]
        check(step, "mlp", SEED, batches, losses)


def test_a_job_that_is_released_and_crashes_again_is_quarantined_at_once():
    batches = batches_of("mlp", SEED, STEPS)
    with (
        Lanewayd(environment=faults("segv", 3, again=2)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches[:2]]
        with pytest.raises(Quarantined):
            step(*batches[2])
        number = str(line_of(service, step)["id"])
        assert run("release", number, address=daemon.address).returncode == 0
        with pytest.raises(Quarantined):
            step(*batches[2])
        check(step, "mlp", SEED, batches[:2], losses)
        missing = run("release", "nobody", address=daemon.address)
        assert missing.returncode == 4
        assert "no job 'nobody'" in missing.stderr


def test_a_worker_that_dies_while_it_releases_a_job_has_released_it():
    batches = batches_of("mlp", SEED, STEPS)
    environment = faults("segv", 3, again=1)
    environment["LANEWAY_FAULT_AGAIN"] += "worker.job_released;"
    with (
        Lanewayd(environment=environment) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches[:2]]
        with pytest.raises(Quarantined):
            step(*batches[2])
        worker = daemon.active_worker()
        assert run("release", step.name, address=daemon.address).returncode == 0
        assert daemon.active_worker() != worker
        losses += [step(*batch).item() for batch in batches[2:]]
        check(step, "mlp", SEED, batches, losses)


@contextlib.contextmanager
def memory_that_runs_out(path):
    """The kernel's count of processes that it killed for memory, which grows all the time."""
    done = threading.Event()
    count = 0

    def grow():
        nonlocal count
        while not done.wait(0.02):
            count += 1
            path.with_suffix(".new").write_text(f"nr_free_pages 1\noom_kill {count}\n")
            path.with_suffix(".new").replace(path)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield path
    finally:
        done.set()
        thread.join()


def test_a_job_at_which_memory_runs_out_each_time_is_tried_alone_and_then_not_any_more(tmp_path):
    batches = batches_of("mlp", SEED, STEPS)
    others = batches_of("mlp", OTHER, STEPS)
    with (
        memory_that_runs_out(tmp_path / "vmstat") as vmstat,
        Lanewayd("--vmstat", str(vmstat), environment=faults("kill", 3, again=3)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", OTHER) as other,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches[:2]]
        other_losses = [other(*batch).item() for batch in others[:2]]
        with pytest.raises(Quarantined) as error:
            step(*batches[2])
        for part in ("memory ran out 4 times in a row", f"node {NODE} of graph", "nothing beside"):
            assert part in str(error.value)
        other_losses += [other(*batch).item() for batch in others[2:]]
        check(other, "mlp", OTHER, others, other_losses)
        check(step, "mlp", SEED, batches[:2], losses)
        assert run("release", step.name, address=daemon.address).returncode == 0
        losses += [step(*batch).item() for batch in batches[2:]]
        check(step, "mlp", SEED, batches, losses)


def test_four_kills_in_a_row_without_lack_of_memory_blame_nobody():
    batches = batches_of("mlp", SEED, STEPS)
    with (
        Lanewayd(environment=faults("kill", 3, again=3)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        check(step, "mlp", SEED, batches, [step(*batch).item() for batch in batches])


def test_a_worker_that_hangs_while_it_places_an_image_is_replaced():
    batches = batches_of("mlp", SEED, STEPS)
    fault = {"LANEWAY_FAULT": "worker.image_written=hang", "LANEWAY_FAULT_AGAIN": ";"}
    with (
        Lanewayd("--time-scale", "0.05", environment=fault) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        check(step, "mlp", SEED, batches, [step(*batch).item() for batch in batches])
        assert "the thread that places images hangs" in daemon.log()
        assert f"job 'mlp-{SEED}' hung at no node, while its image was placed" in daemon.log()


@pytest.mark.parametrize("how", ["segv", "abrt"])
def test_a_node_that_crashes_once_is_run_again(how):
    batches = batches_of("mlp", SEED, STEPS)
    with (
        Lanewayd(environment=faults(how, 3)) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        check(step, "mlp", SEED, batches, [step(*batch).item() for batch in batches])
        assert f"job 'mlp-{SEED}' crashed with SIG{how.upper()}" in daemon.log()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_somebody_else_ends_blames_nobody(number):
    batches = batches_of("mlp", SEED, STEPS)
    with (
        Lanewayd() as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = []
        for batch in batches:
            daemon.kill(daemon.active_worker(), number)
            losses.append(step(*batch).item())
        check(step, "mlp", SEED, batches, losses)
        assert "the worker before this one ended" not in daemon.log()
