"""Processes of the service that are stopped (SIGSTOP) at every stage, alone and all together, and
lanes that hang at a node: what is at fault is replaced and named, and the job's state is eager
PyTorch's, bit for bit."""

import os
import signal
from pathlib import Path

import pytest

from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.fault_points import fault_points

SEED = 7
STEPS = 6
# Passed in each iteration of a job that trains, whatever keeps its state.
STAGES = (
    "worker.submission_taken",
    "worker.iteration_begun",
    "worker.range_saved",
    "worker.commit_entered",
    "worker.node",
    "worker.slot_written",
    "worker.commit_written",
    "worker.done_published",
)


def train(daemon, between=lambda number: None):
    """Trains, calling `between(number)` before each iteration; the job's state is eager's."""
    batches = batches_of("mlp", SEED, STEPS)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = []
        for number, batch in enumerate(batches):
            between(number)
            losses.append(step(*batch).item())
        assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses), "mlp")


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        wait_until(lambda pid=pid: is_stopped(pid), f"{pid} to stop")


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


def standby_of(daemon):
    def ready():
        with daemon.connect() as service:
            workers = service.status()["workers"]
        found = [w for w in workers if w["role"] == "standby" and w["state"] == "ready"]
        return found[0]["pid"] if found else None

    return wait_until(ready, "a ready standby")


@pytest.mark.parametrize("standby", ["0", "1"])
def test_a_worker_that_is_stopped_is_replaced(standby):
    with Lanewayd("--standby", standby) as daemon:
        pids = []

        def between(number):
            if number == 3:
                pids.append(daemon.active_worker())
                stop(*pids)

        train(daemon, between)
        assert is_gone(pids[0]), "continued later, it would write again"
        assert f"worker {pids[0]} is given up: it was stopped for too long" in daemon.log()


def test_a_stopped_standby_does_not_take_over():
    """The worker dies while its standby is stopped, before that was noticed or after."""
    with Lanewayd() as daemon:

        def between(number):
            if number not in (2, 4):
                return
            standby = standby_of(daemon)
            active = daemon.active_worker()
            stop(standby)
            if number == 4:
                wait_until(lambda: is_gone(standby), "the end of the stopped standby")
            daemon.kill(active)

        train(daemon, between)
        assert daemon.log().count("it was stopped for too long") == 2


@pytest.mark.parametrize("point", STAGES)
def test_a_worker_that_is_stopped_at_any_step_changes_nothing(point):
    assert point in fault_points("worker")
    with Lanewayd(environment={"LANEWAY_FAULT": f"{point}:3=stop"}) as daemon:
        pid = daemon.active_worker()
        train(daemon)
        assert f"worker {pid} is given up: it was stopped for too long" in daemon.log()
        assert is_gone(pid)


@pytest.mark.parametrize(
    ("first", "second", "method"),
    [
        ("worker.snapshot_part:2=stop", "", "snapshot:2"),
        ("worker.commit_entered:4", "worker.snapshot_restored=stop;", "snapshot:2"),
        ("worker.range_saved:3", "worker.range_restored=stop;", "undo"),
    ],
)
def test_a_worker_that_is_stopped_while_it_keeps_or_restores_a_state_changes_nothing(
    first, second, method
):
    """The second point is the successor's; those after it have none."""
    faults = {"LANEWAY_FAULT": first, "LANEWAY_FAULT_AGAIN": second}
    with Lanewayd("--recovery", method, environment=faults) as daemon:
        train(daemon)
        assert daemon.log().count("it was stopped for too long") == 1


@pytest.mark.parametrize("measured", [False, True])
def test_a_lane_that_hangs_at_a_node_is_noticed_and_named(measured):
    """In the first iteration, of which nothing is measured, and in the last one."""
    nth = 450 if measured else 1  # a step of the mlp has 96 nodes
    faults = {"LANEWAY_FAULT": f"worker.node:{nth}=hang"}
    with Lanewayd("--time-scale", "0.1", environment=faults) as daemon:
        pid = daemon.active_worker()
        train(daemon)
        log = daemon.log()
        assert f"worker {pid} is given up: lane " in log
        assert "hangs: it runs an iteration for job " in log and "(graph 0, node " in log
        # A tenth of a minute, or fifty times the longest node that was seen.
        assert ("its bound is 6.0 s" in log) == (not measured)


def test_a_service_that_is_stopped_and_continued_blames_nobody():
    with Lanewayd() as daemon:
        standby_of(daemon)
        everybody = [daemon.pid, *daemon.children()]

        def between(number):
            if number != 3:
                return
            stop(*everybody)
            end = os.times().elapsed + 1.5  # a worker may be stopped for 1 s
            wait_until(lambda: os.times().elapsed > end, "that to pass")
            for pid in everybody:
                os.kill(pid, signal.SIGCONT)

        train(daemon, between)
        assert [daemon.pid, *daemon.children()] == everybody
        assert "is given up" not in daemon.log()


def test_all_workers_killed_at_once_are_replaced():
    with Lanewayd("--standby", "2") as daemon:

        def between(number):
            if number in (2, 4):
                pids = daemon.children("laneway-worker")
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                for pid in pids:
                    wait_until(lambda pid=pid: is_gone(pid), f"the end of {pid}")

        train(daemon, between)


def test_standbys_that_die_do_not_end_a_service_that_works():
    """More of them than the deaths that ended a service, while a job trains."""
    with Lanewayd("--time-scale", "0.2") as daemon:
        active = daemon.active_worker()

        def between(number):
            for _ in range(2):
                daemon.kill(standby_of(daemon))

        train(daemon, between)
        assert daemon.active_worker() == active
