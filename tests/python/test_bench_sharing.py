"""The benches fairness, after_pause and turns: in which order they call, shares by weight, what
they read from a refusal and from a trace; how it comes out is not asserted."""

import pytest

from bench import after_pause, fairness, one_lane, turns


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


def test_the_policies_are_those_that_the_service_names():
    refusal = "error: no policy is called 'x'; known policies are: edf, fair, fifo\n"
    assert one_lane.names_in(refusal) == ["edf", "fair", "fifo"]
    refusal = (
        "error: no policy is called 'x'; known policies are: edf, fifo, and files, such as ./a\n"
    )
    assert one_lane.names_in(refusal) == ["edf", "fifo"]
    with pytest.raises(RuntimeError, match="names no policies"):
        one_lane.names_in("killed")


def test_a_gap_is_between_the_jobs_when_the_job_changes():
    def iteration(job, start, took):
        return {"ts": start, "dur": took, "args": {"job": job}}

    runs = [iteration(1, 0, 10), iteration(2, 47, 10), iteration(1, 12, 10), iteration(2, 60, 5)]
    assert turns.gaps(runs) == ([25], [2, 3])


def test_a_run_of_turns_has_iterations_of_both_in_its_trace():
    slices = turns.measure(0.001, 0.3, one_lane.product_s()).iterations
    assert {one["args"]["name"] for one in slices} == {"one", "two"}
    assert all(gaps for gaps in turns.gaps(slices))


def test_a_rank_acts_after_what_its_job_was_told_of_first():
    lines = [
        "+1.000000000 decided TellPolicy of job 1 'one': running",
        "+1.000100000 decided TellPolicy of job 12: resident",
        "+1.000200000 decided TellPolicy of job 1 'one': resident",
        "+1.000300000 heard Advice of job 1 'one': 3, 1 for a second of device time",
        "+1.000400000 heard Advice of job 1 'one': 4, 1 for a second of device time",
        "+1.000450000 heard Advice of job 12: 4, 1 for a second of device time",
    ]
    assert [round(took) for took in turns.times_to_act(lines)] == [300, 350]


def test_a_run_of_turns_with_the_rule_as_a_program_has_its_ranks_in_the_trace():
    trace = turns.measure(0.001, 0.3, one_lane.product_s(), as_program=True)
    assert {one["args"]["name"] for one in trace.iterations} == {"one", "two"}
    assert trace.acts_us
