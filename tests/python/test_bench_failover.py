"""What the benches of recovery compute, apart from the killing and timing itself."""

import os

import pytest

from bench import failover, recovery_cost, soak
from bench.models import FIVE, NAMES
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


def test_every_model_is_a_case():
    assert {f"nodes_undo_{name}" for name in FIVE} <= set(failover.cases())
    assert set(NAMES) <= set(recovery_cost.cases())


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


def _comparison(plain: float, undo: float, snapshots: list[float]) -> recovery_cost.Comparison:
    """Three blocks; the first iterations of those without snapshots are wild."""
    rest = len(snapshots) - 1
    times = {"none": [9e9] + [plain] * rest, "undo": [9e9] + [undo] * rest, "snapshot": snapshots}
    return recovery_cost.Comparison(times=times)


def test_a_snapshot_is_spread_over_the_iterations_of_its_interval():
    """An iteration takes 100, one that is logged 102, a snapshot 50 more: over its block of five
    (50 + 5 * 2) / 5 each, and over twenty (50 + 20 * 2) / 20."""
    one = _comparison(100.0, 103.0, [152.0, 102.0, 102.0, 102.0, 102.0])
    assert one.undo() == 3.0
    assert one.snapshot(interval=5, chosen=5) == pytest.approx(12.0)
    assert one.snapshot(interval=5, chosen=20) == pytest.approx(4.5)


def test_a_block_has_the_chosen_interval_where_it_can():
    def rotation(method: str, interval: int, iteration_s: float) -> tuple[int, int]:
        choice = recovery_cost.Choice(method, interval, 0.0, 0, iteration_s)
        return choice.rotation()

    assert rotation("undo", 1, 0.001) == (50, 50)
    assert rotation("undo", 1, 2.0) == (3, 3)
    assert rotation("snapshot", 7, 0.001) == (56, 7), "as many whole intervals as it takes"
    assert rotation("snapshot", 20, 0.04) == (20, 20)
    assert rotation("snapshot", 30, 0.5) == (3, 3), "too long"


def test_a_short_iteration_has_its_budget_in_microseconds():
    choice = recovery_cost.Choice("undo", 1, 0.0, 0, 1e-4)
    report = Report("recovery_cost")
    found = [_comparison(90e-6, 94e-6, [95e-6] * 3)] * 40
    recovery_cost._report("mlp", found, choice, 3, report)
    rows = {row["metric"]: row for row in report.rows}
    assert rows["chosen_cost_us"]["value"] == pytest.approx(4.0)
    assert rows["chosen_cost_us"]["holds"] and rows["chosen_share"]["target"] is None
    longer = [_comparison(90e-3, 94e-3, [95e-3] * 3)] * 40
    report = Report("recovery_cost")
    recovery_cost._report("gpt", longer, choice, 3, report)
    rows = {row["metric"]: row for row in report.rows}
    assert rows["chosen_share"]["value"] == pytest.approx(4 / 90)
    assert rows["chosen_share"]["holds"] is False and "chosen_cost_us" not in rows


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
