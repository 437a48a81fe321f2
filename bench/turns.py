"""turns: how long does a lane stand still between the turns of two jobs?

Two trainings with four submissions in flight each take turns of 20 ms in one lane of a lanewayd,
for 20 s. From its trace: `idle` is the time from the end of the last iteration of a turn to the
beginning of the first one of the next turn, which is another job's: the worker tells the broker,
whose core answers. `idle_share` is its mean over a turn of 20 ms. `within` is the same between
two iterations of one turn, which no turn can be without; `added` is what the change of turns has
beyond it. Two cases: iterations of about 0.2 ms (mlp's order) and of about 2 ms. Each again with
the same rule as a program from outside the tree (fair_program.py), to which nobody may wait:
`acts` is the time from when the core tells it of a job until its rank of that job decides."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import laneway

from . import fair_program
from .daemon import Daemon, daemon_program
from .harness import Calibration, Options, progress
from .one_lane import QUANTUM_S, Client, product_s
from .report import Report, at_most
from .stats import median, percentile

ITERATIONS_S = {"short": 0.0002, "long": 0.002}
PROGRAM = "_program"  # behind a case: with the rule as a program
IN_FLIGHT = 4
RUN_S = 20.0
QUICK_RUN_S = 2.0
P50_US = 150.0
SHARE = 0.01
ACTS_US = 1000.0

_TOLD_OR_SAID = re.compile(r"\s*([+-]\d+\.\d+)\s+(decided TellPolicy|heard Advice) of (job \d+)")


def cases() -> list[str]:
    return [*ITERATIONS_S, *(name + PROGRAM for name in ITERATIONS_S)]


def run(options: Options) -> Report:
    report = Report("turns")
    calibration = Calibration()
    product = product_s()
    for case in filter(options.wants, cases()):
        progress(f"turns: {case}")
        calibration.sample()
        iteration_s = ITERATIONS_S[case.removesuffix(PROGRAM)]
        run_s = QUICK_RUN_S if options.quick else RUN_S
        trace = measure(iteration_s, run_s, product, as_program=case.endswith(PROGRAM))
        report_gaps(case, *gaps(trace.iterations), report)
        if trace.acts_us:
            p50 = median(trace.acts_us)
            report.add(case, "acts_p50", p50, "us", at_most(ACTS_US), samples=trace.acts_us)
            report.add(case, "acts_p99", percentile(trace.acts_us, 99), "us")
    calibration.add_to(report)
    return report


@dataclass
class Trace:
    """Of a run: its iterations, as ui.perfetto.dev has them, and how long ranks took to act."""

    iterations: list[dict[str, Any]]
    acts_us: list[float]


def measure(iteration_s: float, run_s: float, product: float, as_program: bool = False) -> Trace:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        trace, readable = Path(folder) / "trace", Path(folder) / "trace.json"
        words = ("--standby", "0", "--lanes", "1", "--trace", str(trace))
        rule = str(fair_program.write(Path(folder))) if as_program else "fair"
        words += ("--policy", f"{rule}:quantum_s={QUANTUM_S}")
        with Daemon("256MiB", words=words) as daemon, laneway.connect(daemon.address) as service:
            jobs = [Client(service, name, iteration_s, product) for name in ("one", "two")]
            for job in jobs:
                job.once()
            for job in jobs:
                stack.callback(job.end)
                job.begin(IN_FLIGHT)
            time.sleep(run_s)
            stack.pop_all().close()
        reader = daemon_program().with_name("laneway-trace")
        subprocess.run([str(reader), "--chrome", str(readable), "--", str(trace)], check=True)
        entries = json.loads(readable.read_text())["traceEvents"]
        lines = subprocess.run([str(reader), "--", str(trace)], check=True, stdout=subprocess.PIPE)
    iterations = [entry for entry in entries if entry.get("cat") == "iteration"]
    return Trace(iterations, times_to_act(lines.stdout.decode().splitlines()))


def times_to_act(lines: Sequence[str]) -> list[float]:
    """Microseconds from each time that the core told of a job until the next rank of that job; of
    what it told meanwhile, the first."""
    told: dict[str, float] = {}
    took = []
    for line in lines:
        found = _TOLD_OR_SAID.match(line)
        if found is None:
            continue
        time_us, what, job = float(found[1]) * 1e6, found[2], found[3]
        if what.startswith("decided"):
            told.setdefault(job, time_us)
        elif job in told:
            took.append(time_us - told.pop(job))
    return took


def gaps(slices: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Microseconds between iterations of two jobs, and between those of one."""
    runs = sorted(slices, key=lambda one: one["ts"])
    between, within = [], []
    for before, after in pairwise(runs):
        gap = after["ts"] - (before["ts"] + before["dur"])
        same = before["args"]["job"] == after["args"]["job"]
        (within if same else between).append(gap)
    return between, within


def report_gaps(case: str, between: list[float], within: list[float], report: Report) -> None:
    mean = sum(between) / len(between)
    report.add(case, "idle_p50", median(between), "us", at_most(P50_US), samples=between)
    report.add(case, "idle_p99", percentile(between, 99), "us")
    report.add(case, "idle_share", mean / (QUANTUM_S * 1e6), "ratio", at_most(SHARE))
    report.add(case, "within_p50", median(within), "us")
    report.add(case, "added_p50", median(between) - median(within), "us")
    report.add(case, "changes", float(len(between)), "turns")
