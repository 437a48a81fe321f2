"""The benches fairness, starvation, lanes, after_pause and turns: their arithmetic, what they read
from a refusal and from a trace, and that their clients keep a job busy; how it comes out is not
asserted."""

import pytest

from bench import after_pause, fairness, lanes, one_lane, starvation, turns
from bench.report import Report
from bench.run import BENCHES


def test_the_lanes_by_measure_are_held_against_the_best_of_the_others():
    def runs(*works, disturbed=1.0):
        # Half of the work is a's, in iterations of 0.1 s, and half b's, in ones of 0.5.
        alone = {"a": 0.1 * disturbed, "b": 0.5}
        return [
            lanes.Seen({"a": work * 5, "b": work}, alone, lanes=2, regions_mib=3.0)
            for work in works
        ]

    seen = {"measured": runs(1.6, 1.9, 1.8), "1": runs(1.0), "64": runs(1.2)}
    # A job that was disturbed when it was alone has done no more work for that.
    seen["2"] = runs(2.0, disturbed=3)
    assert lanes.works(seen)["measured"] == pytest.approx([1.6, 1.9, 1.8])
    assert lanes.works(seen)["2"] == pytest.approx([2.0])
    assert lanes.of_best(seen) == pytest.approx(0.9)
    assert set(lanes.VARIANTS) == set(seen)
    assert max(lanes.CASES.values()) <= len(lanes.ITERATIONS_S)


def test_after_a_pause_medians_are_held_against_eager_and_against_no_pause():
    found = {
        "none": {"service": [0.003, 0.004, 0.009], "eager": [0.003, 0.003, 0.003]},
        "50ms": {"service": [0.004, 0.004, 0.004], "eager": [0.012, 0.002, 0.016]},
    }
    report = Report("after_pause")
    after_pause.add(found, report)
    rows = {(row["case"], row["metric"]): row for row in report.rows}
    assert rows["none", "of_eager"]["value"] == pytest.approx(4 / 3)
    assert rows["none", "of_eager"]["target"] is None
    assert rows["50ms", "of_eager"]["value"] == pytest.approx(1 / 3)
    assert rows["50ms", "of_eager"]["holds"]
    assert rows["50ms", "slowdown_service"]["value"] == pytest.approx(1.0)
    assert rows["50ms", "slowdown_eager"]["value"] == pytest.approx(4.0)
    assert set(after_pause.ASLEEP) < set(after_pause.cases())


def test_after_a_pause_each_variant_is_called_in_blocks():
    order = []
    calls = {name: lambda name=name: order.append(name) or 1.0 for name in after_pause.VARIANTS}
    took = after_pause.measure(calls, 0.0, 2)
    each = after_pause.WARM_UP + after_pause.BLOCK
    blocks = [order[i * each] for i in range(4)]
    assert sorted(blocks) == ["eager", "eager", "service", "service"]
    assert all(len(set(order[i * each : (i + 1) * each])) == 1 for i in range(4))
    assert {len(one) for one in took.values()} == {2 * after_pause.BLOCK}


def test_shares_are_by_weight_and_the_worst_job_counts():
    weights = {"a": 1.0, "b": 2.0, "c": 1.0}
    assert fairness.shares(weights, 8.0) == {"a": 2.0, "b": 4.0, "c": 2.0}
    exact = {"a": 20.0, "b": 40.0, "c": 20.0}
    assert fairness.excess(exact, weights, 0.03) == 0
    # a has 1 s too little of 20, which is just what is allowed; c has what it lacks: 5 % too.
    assert fairness.excess({"a": 19.0, "b": 40.0, "c": 21.0}, weights, 0.03) == pytest.approx(1.0)
    # Of a short run the quantum and an iteration are allowed, which is more than 5 %.
    short = {"a": 0.2 - 0.05, "b": 0.4, "c": 0.2 + 0.05}
    assert fairness.excess(short, weights, 0.03) == pytest.approx(1.0)
    assert set(fairness.WEIGHTS) == {1, 2, 4}
    assert len(fairness.WEIGHTS) == len(fairness.ITERATIONS_S) == 8


def test_the_bound_is_of_rivals_quantum_and_iterations():
    assert starvation.bound(1, 0.03, 0.003) == pytest.approx(1 + 2 * 0.05 + 0.003)
    assert starvation.bound(3, 0.03, 0.0) == pytest.approx(3 + 4 * 0.05)
    assert starvation.bound(starvation.RIVALS, 0.1, 0.1) < 5


def test_the_policies_are_those_that_the_service_names():
    refusal = "error: no policy is called 'x'; known policies are: edf, fair, fifo\n"
    assert one_lane.names_in(refusal) == ["edf", "fair", "fifo"]
    with pytest.raises(RuntimeError, match="names no policies"):
        one_lane.names_in("killed")


def test_a_gap_is_between_the_jobs_when_the_job_changes():
    def iteration(job, start, took):
        return {"ts": start, "dur": took, "args": {"job": job}}

    runs = [iteration(1, 0, 10), iteration(2, 47, 10), iteration(1, 12, 10), iteration(2, 60, 5)]
    assert turns.gaps(runs) == ([25], [2, 3])


def test_a_run_of_turns_has_iterations_of_both_in_its_trace():
    slices = turns.measure(0.001, 0.3, one_lane.product_s())
    assert {one["args"]["name"] for one in slices} == {"one", "two"}
    assert all(gaps for gaps in turns.gaps(slices))


def test_all_are_benches():
    assert {"fairness", "starvation", "turns"} <= set(BENCHES)
