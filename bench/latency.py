"""latency: what does the service add to an iteration, in units of what the machine takes to hand a
message to another process and back?

Four programs are told in turn to do a trial of round trips: the yardstick (two processes, a ring in
shared memory and eventfds, blocking), the runner alone, a client in C and one in Python, both
running the empty graph synchronously through lanewayd. `added` is a client's median over the
runner's; the ratio divides it by the yardstick's, round by round. `one_core`: client and service
stay on one core, `two_cores`: each on its own, the yardstick likewise."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from . import stats
from .daemon import Daemon
from .harness import Calibration, Options, find_program, interleaved, progress
from .report import Report, at_most
from .round_trips import RoundTrips, write_empty_graph

CASES = ("one_core", "two_cores")
ROUND_TRIPS = 2_000
QUICK_ROUND_TRIPS = 300
TARGETS = {"c": at_most(2.5), "python": at_most(5)}


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("latency")
    calibration = Calibration()
    cores = sorted(os.sched_getaffinity(0))
    for case in CASES:
        if not options.wants(case):
            continue
        progress(f"latency: {case}")
        if case == "two_cores" and len(cores) < 2:
            _report_missing(case, "this process may run on one core only", report)
            continue
        places = (cores[0], cores[0] if case == "one_core" else cores[1])
        try:
            times = _measure(places, options, calibration)
        except (OSError, RuntimeError) as error:
            _report_missing(case, str(error), report)
            continue
        _report(case, times, report)
    if calibration.samples_ms:
        samples = calibration.samples_ms
        report.add("calibration", "loop_ms", stats.median(samples), "ms", samples=samples)
    return report


def _measure(
    places: tuple[int, int], options: Options, calibration: Calibration
) -> dict[str, list[list[int]]]:
    """Times in nanoseconds by program, trial by trial; client and service stay at `places`."""
    here, there = places
    count = QUICK_ROUND_TRIPS if options.quick else ROUND_TRIPS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        graph = folder / "empty.graph"
        write_empty_graph(graph)
        daemon = stack.enter_context(Daemon("64MiB", cores=(there,)))
        commands = {
            "ring": [str(find_program("laneway-ring-roundtrip")), str(here), str(there)],
            "runner": [str(find_program("laneway-runner-alone")), str(graph), str(there)],
            "c": [str(find_program("laneway-client-roundtrip")), daemon.address, str(graph)],
            "python": [sys.executable, "-m", "bench.python_roundtrip", daemon.address],
        }
        for client in ("c", "python"):
            commands[client].append(str(here))
        programs = {
            name: stack.enter_context(RoundTrips(command)) for name, command in commands.items()
        }
        for program in programs.values():
            program.trial(count)  # warm
        times: dict[str, list[list[int]]] = {name: [] for name in programs}
        for order in interleaved(list(programs), options.trials):
            calibration.sample()
            for name in order:
                times[name].append(programs[name].trial(count))
    return times


def _report(case: str, times: dict[str, list[list[int]]], report: Report) -> None:
    medians = {n: [stats.median(t) / 1e3 for t in trials] for n, trials in times.items()}
    for name, trials in times.items():
        p99 = stats.percentile([t / 1e3 for trial in trials for t in trial], 99)
        report.add(case, f"{name}_p50_us", stats.median(medians[name]), "us", samples=medians[name])
        report.add(case, f"{name}_p99_us", p99, "us")
    for client, target in TARGETS.items():
        rounds = zip(medians[client], medians["runner"], medians["ring"], strict=True)
        ratios = [(ours - alone) / ring for ours, alone, ring in rounds]
        interval = stats.bootstrap_median(ratios)
        note = f"upper end of 95 %; median {interval.median:.2f}"
        metric = "added_p50_over_ring" if client == "c" else f"{client}_added_p50_over_ring"
        more = {"median": interval.median, "low": interval.low}
        report.add(case, metric, interval.high, "ratio", target, samples=ratios, note=note, **more)


def _report_missing(case: str, why: str, report: Report) -> None:
    report.add(case, "added_p50_over_ring", None, "ratio", TARGETS["c"], note=why)
    report.add(case, "python_added_p50_over_ring", None, "ratio", TARGETS["python"], note=why)
