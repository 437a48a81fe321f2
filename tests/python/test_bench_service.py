"""The benches of the service: a ratio at its worse end, and their programs for real where they need
no daemon."""

import os
import subprocess
import sys
import time

import pytest

from bench import latency
from bench.daemon import cpu_of_all_s, cpu_s
from bench.harness import Options, find_program
from bench.report import Report
from bench.round_trips import RoundTrips, write_empty_graph


def trials(*values_us):
    """One trial of three equal round trips for each value."""
    return [[round(value * 1000)] * 3 for value in values_us]


def rows_of(times):
    report = Report("latency")
    latency._report("one_core", times, report)
    return {row["metric"]: row for row in report.rows}


def test_a_ratio_is_reported_at_its_worse_end():
    times = {
        "ring": trials(4, 4, 4),
        "runner": trials(1, 1, 1),
        "c": trials(9, 9, 15),
        "python": trials(9, 9, 9),
    }
    row = rows_of(times)["added_p50_over_ring"]
    assert row["median"] == pytest.approx(2)
    assert row["value"] == pytest.approx(3.5) and row["holds"] is False


@pytest.mark.parametrize("places", [("-1", "-1"), ("0", "0")])
def test_the_yardstick_answers_each_trial_with_its_times(places):
    command = [str(find_program("laneway-ring-roundtrip")), *places]
    with RoundTrips(command) as ring:
        assert len(ring.trial(10)) == 10
        times = ring.trial(25)
    assert len(times) == 25 and all(time > 0 for time in times)


def test_the_runner_alone_runs_the_empty_graph(tmp_path):
    write_empty_graph(tmp_path / "empty.graph")
    command = [str(find_program("laneway-runner-alone")), str(tmp_path / "empty.graph"), "-1"]
    with RoundTrips(command) as runner:
        assert len(runner.trial(5)) == 5


def test_a_program_that_ends_is_reported_with_its_last_words(tmp_path):
    (tmp_path / "no.graph").write_bytes(b"no graph")
    command = [str(find_program("laneway-runner-alone")), str(tmp_path / "no.graph"), "-1"]
    with pytest.raises(RuntimeError, match="runner-alone"):
        RoundTrips(command)


def test_a_trial_with_gaps_sleeps_between_round_trips_and_does_not_time_the_sleep():
    with RoundTrips([str(find_program("laneway-ring-roundtrip")), "-1", "-1"]) as ring:
        started = time.monotonic()
        times = ring.trial(20, gap_us=2_000)
        took = time.monotonic() - started
    gaps = took - sum(times) / 1e9
    assert len(times) == 20 and gaps > 20 * 0.5e-3  # 40 ms on average; sleeps are never shorter


def test_processor_time_of_descendants_counts():
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    shell = f"{sys.executable} -c '{code}'; true"
    with subprocess.Popen(
        ["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        parent.stdout.readline()
        used = cpu_of_all_s(parent.pid)
        parent.stdin.close()
    assert used >= 0.2


def test_idle_clients_and_services_are_measured(monkeypatch):
    monkeypatch.setattr(latency, "QUICK_IDLE_S", 0.1)
    report = Report("latency")
    latency._measure_idle(Options(quick=True), report)
    rows = {row["metric"]: row["value"] for row in report.rows}
    assert set(rows) == {"service_percent", "c_client_percent", "python_client_percent"}
    assert all(0 <= value < 100 for value in rows.values())


def test_processor_time_is_counted_in_seconds():
    before = cpu_s(os.getpid())
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert 0.01 < cpu_s(os.getpid()) - before < 5
