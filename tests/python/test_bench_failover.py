"""The benches of recovery, apart from the killing and timing itself: where they kill, what they
read from the journal, what they compare."""

import os

import pytest

from bench import failover, recovery_cost, soak
from bench.report import Report
from support.daemon import Lanewayd
from support.engine import batches_of, make_step
from support.fault_points import fault_points


def test_every_node_is_hit_once_behind_the_interrupted_iteration():
    points = failover._points("nodes", "undo", nodes=5, quick=False)
    assert points == [f"worker.node:{pass_}" for pass_ in (16, 6, 7, 8, 9, 10)]


def test_a_quick_run_takes_nodes_from_the_first_to_the_last():
    points = failover._points("nodes", "undo", nodes=100, quick=True)
    assert len(points) == failover.QUICK_NODES + 1
    assert points[0] == "worker.node:301", "its graph is planned by then"
    assert points[1] == "worker.node:101" and points[-1] == "worker.node:200"


@pytest.mark.parametrize("method", failover.METHODS)
def test_the_steps_name_points_that_the_worker_has(method):
    known = set(fault_points("worker"))
    for point in failover._points("steps", method, nodes=5, quick=False):
        assert point.split(":")[0] in known


def test_the_journal_says_what_a_job_is_at():
    with Lanewayd() as daemon:
        journal = failover.JournalWords(daemon.process.pid)
        assert journal.phases() == []
        with daemon.connect() as service, make_step(service, "mlp", 1) as step:
            step(*batches_of("mlp", 1, 1)[0]).item()
            assert journal.phases() == [0], "idle"


def test_what_is_no_service_has_no_journal():
    with pytest.raises(LookupError, match=f"process {os.getpid()} has no journal open"):
        failover.JournalWords(os.getpid())


def test_a_neighbours_iterations_are_counted_where_they_lie_whole():
    one = recovery_cost.Comparison(span={"none": (0.0, 10.0), "undo": (10.0, 20.0)})
    ends = [(2.0, 1.0), (4.0, 1.0), (10.5, 1.0), (13.0, 2.0), (16.0, 2.0), (20.5, 9.0)]
    assert recovery_cost._slowdown(one, ends, "undo") == 2.0
    assert recovery_cost._slowdown(one, ends[:3], "undo") is None


def test_a_worker_that_is_told_to_rotate_does_so_by_the_iteration():
    """Blocks of two: what is done in each iteration is what the bench takes it for."""
    block = 2
    with (
        Lanewayd("--standby", "0", "--recovery", f"rotate:{block}:{block}") as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", 1) as step,
    ):
        batch = batches_of("mlp", 1, 1)[0]
        for iteration in range(8 * block):
            step(*batch).item()
            method = service.job_report("mlp-1")["recovery"]["method"]
            assert method == (recovery_cost.ROUND * 2)[iteration // block], iteration


def test_a_soak_compares_what_it_disturbs(monkeypatch):
    """One of a second, with few faults: everything is measured and compared."""
    monkeypatch.setattr(soak, "BUSY", 1)
    monkeypatch.setattr(soak, "NAMES", ("mlp",))
    report = Report("soak")
    soak._measure(1.0, report)
    rows = {row["metric"]: row for row in report.rows}
    for metric in ("jobs_that_differ", "clients_that_differ", "standstills", "false_hangs"):
        assert rows[metric]["value"] == 0, rows[metric]
    for metric in ("workers", "jobs", "pool_claimed_bytes", "supervisor_descriptors", "children"):
        assert rows[metric]["holds"], rows[metric]
