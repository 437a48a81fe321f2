"""The scheduler bench's program: that its loads are what they claim to be, in its own counts, and
that it refuses what it cannot do. How fast it is is not asserted."""

import subprocess

import pytest

from bench import scheduler
from bench.harness import Options

EVENTS = 20_000
PROGRAM = ("laneway-scheduler-load",)


def test_in_the_steady_load_every_event_is_a_choice(program):
    """Every event ends a turn, and the next one goes to the shortest of 16: all jobs get theirs."""
    found = scheduler.drive("steady", "srtf", EVENTS, 2)
    assert found["events"] == found["turns"] == found["choices"] == EVENTS
    assert found["distinct_jobs"] == 1000
    assert 15 < found["mean_candidates"] < 17
    assert found["arrivals"] == found["departures"] == 0
    for metric in (
        *("events_per_s", "events_per_own_s", "handle_p50_us", "handle_p99_us", "handle_max_us"),
        *("handle_max_own_us", "loop_ms"),
    ):
        assert len(found[metric]) == 2 and min(found[metric]) > 0, metric
    for p50, p99, most in zip(
        *(found[f"handle_{m}_us"] for m in ("p50", "p99", "max")), strict=True
    ):
        assert p50 <= p99 <= most


@pytest.mark.parametrize("policy", ["srtf", "fifo"])
def test_in_the_mixed_load_jobs_come_and_go(program, policy):
    found = scheduler.drive("mix", policy, EVENTS, 1)
    assert found["events"] == EVENTS > found["turns"] >= found["choices"] > EVENTS / 4
    assert found["arrivals"] > 0 < found["departures"]
    assert 10 < found["mean_candidates"] < 20


def test_in_the_crowded_load_images_leave_and_come_back(program):
    """The pool holds 700 of 1,000 images, and all have work: each gets its turns all the same."""
    found = scheduler.drive("crowded", "srtf", EVENTS, 1)
    assert found["evictions"] >= 300 <= found["returns"]
    assert found["distinct_jobs"] == 1000 and found["choices"] > EVENTS / 2


def test_a_load_that_is_none_is_refused(program):
    """fifo gives the earliest job every turn when all always have work: no load of many jobs."""
    with pytest.raises(RuntimeError, match="not what it is meant to be"):
        scheduler.drive("steady", "fifo", EVENTS, 1)


@pytest.mark.parametrize(
    "arguments", ["", "steady srtf 100", "x srtf 9 9", "mix x 9 9", "mix fifo 0 1"]
)
def test_wrong_usage_is_told(program, arguments):
    done = subprocess.run([program, *arguments.split()], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_a_program_that_is_missing_is_a_row_without_a_value(monkeypatch, tmp_path):
    monkeypatch.setenv("LANEWAY_BUILD", str(tmp_path))
    report = scheduler.run(Options(trials=1, quick=True, only=("mix",)))
    assert [row["value"] for row in report.rows] == [None, None]
    assert all("./dev build" in row["note"] for row in report.missed()) and report.missed()
