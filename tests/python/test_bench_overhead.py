"""The overhead bench: its workers run for real; its figures come out right on times that are
given."""

import pytest

from bench import overhead
from bench.report import Report
from bench.worker import Worker, WorkerFailed


def make(name="mlp", runner="eager", form="default"):
    return {
        "name": name,
        "seed": 0,
        "form": form,
        "runner": runner,
        "threads": 1,
        "cores": [],
    }


def test_workers_with_either_malloc_train_to_the_same_bits():
    """Also shows that trials go on where the last one stopped: 2 + 3 batches equal 5."""
    with Worker(make("cnn")) as one, Worker(make("cnn"), overhead.KEEPING_MALLOC) as two:
        one.make()
        two.make()
        assert len(one.trial(5)["times_ns"]) == 5
        two.trial(2)
        assert one.digest() != two.digest()
        two.trial(3)
        assert one.digest() == two.digest()


def test_the_keeping_malloc_meets_no_page_faults():
    """What the second baseline is for: freed memory stays, so a warm step faults on nothing."""
    with Worker(make("cnn"), overhead.KEEPING_MALLOC) as worker:
        worker.make()
        faults = [worker.trial(20)["minor_faults"] for _ in range(6)]
    assert min(faults) < 20, "less than one an iteration once the heap has grown"


def test_a_worker_says_what_failed():
    with Worker(make("lenet")) as worker, pytest.raises(WorkerFailed, match="no model"):
        worker.make()


def test_a_worker_that_dies_is_noticed():
    with Worker(make()) as worker:
        worker._process.kill()
        with pytest.raises(WorkerFailed, match="ended"):
            worker.make()


def rows_of(times, failed=None):
    report = Report("overhead")
    case = overhead.CASES[0]
    overhead._report_ratios(case, times, failed or {}, report)
    return {row["metric"]: row for row in report.rows}


def test_ratios_are_against_the_better_eager():
    """Eager 400 and 300 us, embedded 100, two in flight 60, inductor 200: 3.0, 5.0 and 2.0."""
    us = {"eager": 400, "eager_keep": 300, "embedded": 100, "embedded_inflight2": 60}
    us |= {"inductor": 200}
    rows = rows_of({name: [[t * 1000] * 4] * 6 for name, t in us.items()})
    assert rows["embedded_over_eager"]["value"] == pytest.approx(3)
    assert rows["embedded_over_eager"]["holds"] is True
    assert "eager_keep" in rows["embedded_over_eager"]["note"]
    assert rows["embedded_inflight2_over_eager"]["value"] == pytest.approx(5)
    assert rows["embedded_over_inductor"]["value"] == pytest.approx(2)
    assert rows["embedded_over_inductor"]["target"] is None


def test_a_variant_that_did_not_run_leaves_null_and_its_reason():
    us = {"eager": 400, "eager_keep": 300, "embedded": 100, "embedded_inflight2": 60}
    times = {name: [[t * 1000] * 4] * 6 for name, t in us.items()}
    row = rows_of(times, {"inductor": "it made no graph"})["embedded_over_inductor"]
    assert row["value"] is None and row["holds"] is None
    assert row["note"] == "inductor: it made no graph"


def threaded_rows(eager_us, beside_us, embedded_us):
    """The rows of two cases, the second with half of the first's embedded time, and their means."""
    report = Report("overhead")
    first, second = [case for case in overhead.CASES if case.threaded][:2]
    us = {"eager": eager_us, "eager_keep": eager_us, "eager_beside_embedded": beside_us}
    us |= {"embedded": embedded_us, "service": eager_us}
    for case, divisor in ((first, 1), (second, 2)):
        times = {name: [[t * 1000] * 4] * 6 for name, t in us.items()}
        times["embedded"] = [[embedded_us * 1000 / divisor] * 4] * 6
        overhead._report_threaded(case, times, {}, report)
    overhead._report_threaded_means(report)
    return {(row["case"], row["metric"]): row for row in report.rows}


def test_cases_with_torchs_own_thread_count_hold_their_medians_to_targets():
    """Eager 400 us, 500 beside a service; embedded 400 and 200: ratios 1 and 2, their mean 1.41."""
    rows = threaded_rows(400, 500, 400)
    assert rows["mlp_threads", "embedded_over_eager"]["value"] == pytest.approx(1)
    assert rows["mlp_threads", "embedded_over_eager"]["holds"] is True
    assert rows["mlp_threads", "eager_beside_embedded_over_eager"]["value"] == pytest.approx(0.8)
    assert rows["mlp_threads", "eager_beside_embedded_over_eager"]["holds"] is False
    mean = rows["all_threads", "embedded_over_eager_mean"]
    assert mean["value"] == pytest.approx(2**0.5) and mean["holds"] is True


def test_eager_beside_a_service_trains_as_alone():
    with Worker(make()) as alone, Worker(make(runner="eager_beside_embedded")) as beside:
        alone.make()
        beside.make()
        alone.trial(3)
        beside.trial(3)
        assert alone.digest() == beside.digest()
