"""latency: what does the service add to an iteration, in units of what the machine takes to hand a
message to another process and back? And what do a client and a service burn when idle?

Four programs are told in turn to do a trial of round trips: the yardstick (two processes, a ring in
shared memory and eventfds, blocking), the runner alone, a client in C and one in Python, both
running the empty graph synchronously through lanewayd. `added` is a client's median over the
runner's; the ratio divides it by the yardstick's, round by round. `one_core`: client and service
stay on one core, `two_cores`: each on its own, the yardstick likewise. `gaps_*`: as two_cores,
and every program sleeps before each round trip, for a random time with that mean. `idle`: the
processor time of clients that are connected and have run an iteration, and of lanewayd with all its
processes, while nobody asks for anything."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from . import stats
from .daemon import Daemon, cpu_of_all_s
from .harness import Calibration, Options, find_program, interleaved, progress
from .report import Report, at_most
from .round_trips import RoundTrips, write_empty_graph

ROUND_TRIPS = 2_000
QUICK_ROUND_TRIPS = 300
GAPS_US = {"gaps_50us": 50, "gaps_500us": 500, "gaps_5ms": 5_000}  # means of the random gaps
GAP_TRIAL_S = 0.5  # a trial's gaps together, at most
IDLE_S = 20.0
QUICK_IDLE_S = 3.0
TARGETS = {  # case -> client -> round trips of the machine that it may add
    "one_core": {"c": at_most(2.5), "python": at_most(5)},
    **{case: {"c": at_most(0.5), "python": at_most(0.8)} for case in ("two_cores", *GAPS_US)},
}
IDLE = at_most(0.5)  # percent of a core
CASES = (*TARGETS, "idle")


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
        if case == "idle":
            _measure_idle(options, report)
            continue
        if case != "one_core" and len(cores) < 2:
            _report_missing(case, "this process may run on one core only", report)
            continue
        places = (cores[0], cores[0] if case == "one_core" else cores[1])
        try:
            times = _measure(places, GAPS_US.get(case, 0), options, calibration)
        except (OSError, RuntimeError) as error:
            _report_missing(case, str(error), report)
            continue
        _report(case, times, report)
    calibration.add_to(report)
    return report


def _measure(
    places: tuple[int, int], gap_us: int, options: Options, calibration: Calibration
) -> dict[str, list[list[int]]]:
    """Times in nanoseconds by program, trial by trial; client and service stay at `places`."""
    here, there = places
    count = QUICK_ROUND_TRIPS if options.quick else ROUND_TRIPS
    if gap_us:
        count = min(count, round(GAP_TRIAL_S * 1e6 / gap_us))
    with ExitStack() as stack:
        graph = _empty_graph(stack)
        daemon = stack.enter_context(Daemon("64MiB", cores=(there,)))
        commands = {
            "ring": [str(find_program("laneway-ring-roundtrip")), str(here), str(there)],
            "runner": [str(find_program("laneway-runner-alone")), str(graph), str(there)],
        }
        commands |= {
            name: [*command, str(here)] for name, command in _clients(daemon, graph).items()
        }
        programs = {
            name: stack.enter_context(RoundTrips(command)) for name, command in commands.items()
        }
        for program in programs.values():
            program.trial(count, gap_us)  # warm
        times: dict[str, list[list[int]]] = {name: [] for name in programs}
        for order in interleaved(list(programs), options.trials):
            calibration.sample()
            for name in order:
                times[name].append(programs[name].trial(count, gap_us))
    return times


def _empty_graph(stack: ExitStack) -> Path:
    graph = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "empty.graph"
    write_empty_graph(graph)
    return graph


def _clients(daemon: Daemon, graph: Path) -> dict[str, list[str]]:
    """The commands of the two clients, which end with the core where the client stays."""
    return {
        "c": [str(find_program("laneway-client-roundtrip")), daemon.address, str(graph)],
        "python": [sys.executable, "-m", "bench.python_roundtrip", daemon.address],
    }


def _measure_idle(options: Options, report: Report) -> None:
    seconds = QUICK_IDLE_S if options.quick else IDLE_S
    try:
        with ExitStack() as stack:
            graph = _empty_graph(stack)
            daemon = stack.enter_context(Daemon("64MiB"))
            clients = {
                name: stack.enter_context(RoundTrips([*command, "-1"]))
                for name, command in _clients(daemon, graph).items()
            }
            for client in clients.values():
                client.trial(QUICK_ROUND_TRIPS)
            processes = {"service": daemon.process.pid}
            processes |= {f"{name}_client": client.pid for name, client in clients.items()}
            before = {name: cpu_of_all_s(pid) for name, pid in processes.items()}
            started = time.perf_counter()
            time.sleep(seconds)
            took = time.perf_counter() - started
            after = {name: cpu_of_all_s(pid) for name, pid in processes.items()}
    except (OSError, RuntimeError) as error:
        report.add("idle", "service_percent", None, "%", IDLE, note=str(error))
        return
    for name in processes:
        percent = 100 * (after[name] - before[name]) / took
        note = f"of a core, over {took:.1f} s without a request"
        report.add("idle", f"{name}_percent", percent, "%", IDLE, note=note)


def _report(case: str, times: dict[str, list[list[int]]], report: Report) -> None:
    medians = {n: [stats.median(t) / 1e3 for t in trials] for n, trials in times.items()}
    for name, trials in times.items():
        p99 = stats.percentile([t / 1e3 for trial in trials for t in trial], 99)
        report.add(case, f"{name}_p50_us", stats.median(medians[name]), "us", samples=medians[name])
        report.add(case, f"{name}_p99_us", p99, "us")
    for client, target in TARGETS[case].items():
        rounds = zip(medians[client], medians["runner"], medians["ring"], strict=True)
        ratios = [(ours - alone) / ring for ours, alone, ring in rounds]
        interval = stats.bootstrap_median(ratios)
        note = f"upper end of 95 %; median {interval.median:.2f}"
        metric = "added_p50_over_ring" if client == "c" else f"{client}_added_p50_over_ring"
        more = {"median": interval.median, "low": interval.low}
        report.add(case, metric, interval.high, "ratio", target, samples=ratios, note=note, **more)


def _report_missing(case: str, why: str, report: Report) -> None:
    report.add(case, "added_p50_over_ring", None, "ratio", TARGETS[case]["c"], note=why)
    report.add(case, "python_added_p50_over_ring", None, "ratio", TARGETS[case]["python"], note=why)
