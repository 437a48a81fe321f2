"""plan: how close to the optimum are memory plans, and what does an allocation cost?

Each model trains in a process of its own; the job's report gives its tape and plan. The bound is
worked out from the tape here, apart from the planner. An allocation's cost is that of the tape
replayed through a planned lane against glibc, both warm (laneway-plan-alloc)."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from . import models, stats
from .harness import Calibration, Options, find_program, progress
from .report import Report, at_least, at_most
from .tapes import Tape
from .worker import Worker, WorkerFailed

ITERATIONS = 1000
QUICK_ITERATIONS = 50
TARGETS = {
    "peak_over_bound": ("ratio", at_most(1.03)),
    "plan_s": ("s", at_most(1)),
    "alloc_cost_over_glibc": ("ratio", at_most(0.5)),
    "addresses_stable": ("bool", at_least(1)),
}


def cases() -> list[str]:
    return list(models.NAMES)


def run(options: Options) -> Report:
    report = Report("plan")
    calibration = Calibration()
    for name in models.NAMES:
        if not options.wants(name):
            continue
        progress(f"plan: {name}")
        calibration.sample()
        try:
            _measure(name, options, report)
        except WorkerFailed as error:
            for metric, (unit, target) in TARGETS.items():
                report.add(name, metric, None, unit, target, note=str(error))
    calibration.add_to(report)
    return report


def _measure(name: str, options: Options, report: Report) -> None:
    iterations = QUICK_ITERATIONS if options.quick else ITERATIONS
    make = {"name": name, "seed": 0, "form": "default", "runner": "embedded"}
    make |= {"threads": options.threads, "cores": list(options.cores)}
    with Worker(make) as worker:
        worker.make()
        worker.trial(3)
        addresses = worker.addresses(iterations)
        graph = worker.report()["graphs"][0]
    if "tape" not in graph:
        raise WorkerFailed(f"{name} has no plan after {graph['iterations']} iterations")
    tape = Tape.of(graph["tape"])
    _report_plan(name, graph, tape, report)
    _report_cost(name, tape, options, report)
    changes, off_tape, done = (addresses[key] for key in ("changes", "off_tape", "done"))
    # The service may count the iteration before the first of these a moment late.
    stable = float(changes == 0 and off_tape == 0 and done >= iterations)
    note = f"{done} iterations, {changes} changes, {off_tape} off their tape"
    report.add(name, "addresses_stable", stable, *TARGETS["addresses_stable"], note=note)


def _report_plan(name: str, graph: dict[str, Any], tape: Tape, report: Report) -> None:
    bound = tape.live_bound()
    note = f"{len(tape.allocations)} allocations, {bound / 2**20:.2f} MiB"
    if bound != graph["bound_bytes"]:
        note += f"; the service says {graph['bound_bytes']} and not {bound} bytes"
    ratio = graph["planned_peak_bytes"] / bound
    report.add(name, "peak_over_bound", ratio, *TARGETS["peak_over_bound"], note=note)
    report.add(name, "plan_s", graph["plan_s"], *TARGETS["plan_s"])


def _report_cost(name: str, tape: Tape, options: Options, report: Report) -> None:
    metric = "alloc_cost_over_glibc"
    path = options.out / "tapes" / f"{name}.tape"
    tape.write(path)
    try:
        found = replay(path, options.trials)
    except (OSError, subprocess.CalledProcessError) as error:
        report.add(name, metric, None, *TARGETS[metric], note=str(error))
        return
    planned, glibc = found["planned_ns"], found["glibc_ns"]
    ratio = stats.bootstrap_ratio([planned], glibc)
    note = f"upper end of 95 %; median {ratio.median:.3f}"
    note += "" if found["optimized"] else "; the program was built without optimisation"
    report.add(name, metric, ratio.high, *TARGETS[metric], note=note, median=ratio.median)
    for side, samples in (("planned", planned), ("glibc", glibc)):
        metric = f"{side}_ns_per_event"
        report.add(name, metric, stats.median(samples), "ns", samples=samples)


def replay(tape: Any, trials: int) -> dict[str, Any]:
    """Runs laneway-plan-alloc on a tape file: the nanoseconds an event took on either side."""
    command = [str(find_program("laneway-plan-alloc")), str(tape), str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
