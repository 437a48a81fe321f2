"""The bench consolidation: its arrivals are a Poisson process, its ideal is the queue that was
worked out by hand, and what a model needs comes from a real service."""

from __future__ import annotations

import itertools
import os
import statistics
from concurrent.futures import Future

import pytest

from bench import consolidation, shared_memory
from bench.consolidation import Model
from bench.open_loop import Arrival, drive, ideal_latencies, poisson


def test_arrivals_are_a_poisson_process_over_all_models():
    arrivals = poisson(100.0, 200.0, 7, seed=3)
    assert arrivals == poisson(100.0, 200.0, 7, seed=3)
    times = [arrival.at_s for arrival in arrivals]
    assert times == sorted(times) and times[-1] < 200.0
    gaps = [b - a for a, b in itertools.pairwise(times)]
    # Mean and deviation of exponential gaps are both 1/rate; 20,000 of them are within 3 %.
    assert statistics.mean(gaps) == pytest.approx(0.01, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.01, rel=0.03)
    for model in range(7):
        numbers = [arrival.number for arrival in arrivals if arrival.model == model]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) == pytest.approx(len(arrivals) / 7, rel=0.1)


def test_the_ideal_serves_one_at_a_time_in_the_order_of_arrival():
    arrivals = [Arrival(0.0, 0, 0), Arrival(1.0, 1, 0), Arrival(1.5, 0, 1), Arrival(9.0, 0, 2)]
    alone = [[2.0, 1.0], [3.0]]
    # 0 to 2; 2 to 5; 5 to 6 (its second time); 9 to 11 (its first time again).
    assert ideal_latencies(arrivals, alone) == pytest.approx([2.0, 4.0, 4.5, 2.0])


def test_requests_go_out_in_their_order_and_answers_belong_to_them():
    arrivals = [Arrival(0.01 * number, number % 2, number // 2) for number in range(6)]
    seen = []

    def submit(arrival):
        seen.append(arrival)
        future = Future()
        future.set_result((arrival.model, arrival.number))
        return future

    latencies, answers = drive(arrivals, submit)
    assert seen == arrivals
    assert answers == [(arrival.model, arrival.number) for arrival in arrivals]
    assert len(latencies) == 6 and all(latency >= 0 for latency in latencies)


def test_a_request_that_fails_ends_the_run():
    def submit(arrival):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        drive([Arrival(0.0, 0, 0), Arrival(0.0, 0, 1)], submit)


def test_models_are_measured_one_at_a_time_in_a_drawn_order():
    asked: list[tuple[int, int]] = []

    class Predict:
        def __init__(self, which: int) -> None:
            self.which = which

        def submit(self, number: int) -> Predict:
            asked.append((self.which, number))
            return self

        def result(self) -> None:
            assert len(asked) == len(set(asked))

    inputs = [(number,) for number in range(consolidation.INPUTS)]
    jobs = [(Predict(which), Model(str(which), None, inputs, [])) for which in range(6)]
    found = consolidation._drawn(jobs, 3, 0.0, 7)
    assert [len(times) for times in found] == [3] * 6
    rounds = [asked[begin : begin + 6] for begin in range(0, 18, 6)]
    for number, one in enumerate(rounds):
        assert sorted(one) == [(which, number) for which in range(6)]
    assert len({tuple(which for which, _ in one) for one in rounds}) > 1


def test_a_models_needs_come_from_the_service_before_it_ran():
    model = Model.made("mlp", 0)
    needs = consolidation.needs_of(model)
    parameters = sum(p.nbytes for p in model.module.parameters())
    assert parameters <= needs.persistent < parameters + 64 * 5
    assert needs.predicted > 0


def test_pss_is_read_from_the_kernels_sum():
    text = "5 ---p 0 00:00 0 [rollup]\nRss:  100 kB\nPss:   40 kB\nPss_Anon:  7 kB\n"
    assert shared_memory.parse_pss(text) == 40 * 1024
    with pytest.raises(ValueError, match="Pss"):
        shared_memory.parse_pss("Rss: 1 kB\n")
    assert shared_memory.pss_of([os.getpid()]) > 10 << 20
    assert os.getpid() in shared_memory.family(os.getppid())
