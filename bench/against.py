"""against: is a training step as fast in this checkout as in another one, the commit before, say?

    git worktree add ../before COMMIT && (cd ../before && ./dev build)
    ./dev bench against --other ../before

Both run embedded, each in a process of its own over its own code and libraries, told in turn to run
a trial (A B B A). The rounds are paired; `value` is the lower end of the 95 % interval, and the
median over the cases is the figure to reach.

The cases `*_service` run through a lanewayd of each checkout's own. There the processor time of an
iteration is compared as well: that of the client's process and of all of lanewayd's. The cases
`*_busy` run with a thread for each core beside eight processes that compute all the time:
waiting threads must not take the cores from those that work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from . import models, stats
from .daemon import cpu_of_all_s
from .harness import Calibration, Options, interleaved, progress
from .report import ROOT, Report, Target, at_least, at_most
from .worker import Worker, WorkerFailed

NO_SLOWER = at_least(0.98)
NO_MORE_CPU = at_most(1.01)
SERVED = ("mlp", "gpt")  # an iteration of some 0.1 ms, and one of some 20 ms
BUSY = ("mlp", "cnn")
BUSY_PROCESSES = 8
BUSY_TRIALS = 10  # at most: an iteration may take a hundred times as long as alone


def cases() -> list[str]:
    return [
        *models.NAMES,
        *(f"{name}_service" for name in SERVED),
        *(f"{name}_busy" for name in BUSY),
    ]


def run(options: Options) -> Report:
    report = Report("against")
    if options.other is None or not (options.other / "bench" / "worker.py").is_file():
        raise SystemExit("bench against: --other DIR must name another checkout, built")
    calibration = Calibration()
    compared = []
    for name in cases():
        if options.wants(name):
            progress(f"against: {name}")
            means = _measure(name, options, report, calibration)
            if means and not name.endswith("_busy"):
                compared.append(([means["other"]], means["this"]))
    if compared:
        middle = stats.bootstrap_median_ratio(compared)
        interval = {"median": middle.median, "high": middle.high}
        report.add("all", "speed_over_other", middle.low, "ratio", target=NO_SLOWER, **interval)
    calibration.add_to(report)
    return report


def _measure(
    name: str, options: Options, report: Report, calibration: Calibration
) -> dict[str, list[float]] | None:
    """The mean times of each one's trials; None when one of them does not run it."""
    checkouts = {"this": ROOT, "other": options.other}
    model, _, way = name.partition("_") if name.endswith(("_service", "_busy")) else (name, "", "")
    served, busy = way == "service", way == "busy"
    make = {"name": model, "seed": 0, "form": "default"}
    make |= {"runner": "service" if served else "embedded"}
    threads = len(os.sched_getaffinity(0)) if busy else options.threads
    make |= {"threads": threads, "cores": list(options.cores)}
    means: dict[str, list[float]] = {which: [] for which in checkouts}
    cpu: dict[str, list[float]] = {which: [] for which in checkouts}
    with ExitStack() as stack:
        workers = {}
        try:
            for which, folder in checkouts.items():
                worker = stack.enter_context(Worker(make, checkout=folder))
                worker.make()
                worker.trial(5)
                workers[which] = worker
        except WorkerFailed as error:
            report.add(name, "speed_over_other", None, "ratio", note=str(error))
            return None
        if busy:
            stack.enter_context(_busy_processes())
        probes = [worker.trial(5)["times_ns"] for worker in workers.values()]  # as many in both
        once = min(map(stats.median, probes))
        iterations = max(3, int((0.05 if options.quick else 0.25) * 1e9 / once))
        trials = min(options.trials, BUSY_TRIALS) if busy else options.trials
        for order in interleaved(list(workers), trials):
            calibration.sample()
            for which in order:
                before = cpu_of_all_s(workers[which].pid)
                times = workers[which].trial(iterations)["times_ns"]
                used = cpu_of_all_s(workers[which].pid) - before
                means[which].append(sum(times) / len(times))
                cpu[which].append(used / iterations * 1e6)
        same = workers["this"].digest() == workers["other"].digest()
    ratio = stats.bootstrap_ratio([means["other"]], means["this"])
    interval = {"median": ratio.median, "high": ratio.high}
    report.add(name, "speed_over_other", ratio.low, "ratio", **interval)
    for which, samples in means.items():
        us = [sample / 1000 for sample in samples]
        report.add(name, f"{which}_us", stats.median(us), "us", samples=us)
    report.add(name, "state_equal", float(same), "bool")
    if served:
        _report_cpu(name, cpu, NO_MORE_CPU if name == "gpt_service" else None, report)
    return means


@contextmanager
def _busy_processes() -> Iterator[None]:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _report_cpu(
    name: str, cpu: dict[str, list[float]], target: Target | None, report: Report
) -> None:
    """Processor time of an iteration, of the client and the service, in microseconds. Where an
    iteration is short, both sides may spin: only the long one's has a target."""
    ratio = stats.bootstrap_ratio([cpu["this"]], cpu["other"])
    interval = {"low": ratio.low, "high": ratio.high}
    note = f"median; 95 % from {ratio.low:.3f} to {ratio.high:.3f}"
    report.add(name, "cpu_over_other", ratio.median, "ratio", target, note=note, **interval)
    for which, samples in cpu.items():
        report.add(name, f"{which}_cpu_us", stats.median(samples), "us", samples=samples)
