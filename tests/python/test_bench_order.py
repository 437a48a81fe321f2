"""The bench order: that its ideal servers are ideal, by figures that other programs found and by
hand, and that the simulator it starts says what it says."""

import random

import pytest

from bench import order
from bench.ideal_servers import Job, read, serve, share
from bench.report import Report
from bench.simulate import simulate

S = 10**9
PROGRAM = ("laneway-simulate", "bin")


@pytest.mark.parametrize(
    ("servers", "name", "average_s"),
    [
        (1, "fifo", 10_231.572),
        (1, "sjf", 3_385.115),
        (1, "srtf", 3_176.534),
        (1, "shortest_job", 3_205.491),
        (1, "latest_first", 7_370.476),
        (2, "fifo", 4_800.465),
        (2, "srtf", 1_493.862),
    ],
)
def test_the_ideal_servers_take_what_others_found_for_this_trace(servers, name, average_s):
    found = serve(read(order.SALUS), name, servers)
    assert found.average_jct_s == pytest.approx(average_s, abs=0.0005)
    if servers == 1:
        assert found.makespan_s == pytest.approx(18_204.311, abs=0.0005)


def test_processor_sharing_takes_what_others_found_for_this_trace():
    found = share(read(order.SALUS))
    assert found.average_jct_s == pytest.approx(6_588.680, abs=0.0005)
    assert found.makespan_s == pytest.approx(18_204.311, abs=0.0005)


def test_the_ideal_servers_by_hand():
    """A long job, and two short ones that come while it runs."""
    jobs = [Job(0, 10 * S), Job(1 * S, 4 * S), Job(2 * S, 2 * S)]
    assert serve(jobs, "fifo").average_jct_s == pytest.approx((10 + 13 + 14) / 3)
    assert serve(jobs, "sjf").average_jct_s == pytest.approx((10 + 15 + 10) / 3)
    # At 2 s the one of 2 s goes before the one that has 3 s left; they end at 4 and 7 s.
    assert serve(jobs, "srtf").average_jct_s == pytest.approx((16 + 6 + 2) / 3)
    assert serve(jobs, "fifo", 3).average_jct_s == pytest.approx((10 + 4 + 2) / 3)
    # Two jobs share from 1 s on: the second one's 2 s take 4.
    both = [Job(0, 10 * S), Job(1 * S, 2 * S)]
    assert share(both).average_jct_s == pytest.approx((12 + 4) / 2)
    assert share(both, 2).average_jct_s == pytest.approx((10 + 2) / 2)


def test_no_order_does_better_than_shortest_remaining_time_and_all_do_the_same_work():
    seed = random.randrange(2**32)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(50):
        jobs = [
            Job(draw.randrange(100) * S, draw.randrange(1, 30) * S)
            for _ in range(draw.randrange(1, 30))
        ]
        found = {name: serve(jobs, name) for name in ("fifo", "sjf", "srtf")}
        shared = share(jobs)
        assert len({round(one.makespan_s, 6) for one in [*found.values(), shared]}) == 1
        least = min(one.average_jct_s for one in [*found.values(), shared])
        assert found["srtf"].average_jct_s == pytest.approx(least)


def test_without_memory_the_core_is_the_ideal_server(program):
    """These rows hold whatever the policies do when memory is short."""
    report = Report("order")
    order.unlimited(report)
    assert len(report.rows) == 3
    assert report.missed() == []


def test_a_trace_that_is_none_is_the_programs_reason(program, tmp_path):
    trace = tmp_path / "wrong.csv"
    trace.write_text("job_id,submit_time_s,iterations,iteration_ms\na,0,x,1\n")
    with pytest.raises(RuntimeError, match="line 2, column iterations: 'x'"):
        simulate(trace, "fifo")
