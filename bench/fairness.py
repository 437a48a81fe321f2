"""fairness: does `fair` share a lane's device time by weight, whatever iterations take?

`weights`: eight trainings with iterations of about 1 to 30 ms and weights 1, 2 and 4, each with
two submissions in flight, in one lane for 60 s. `excess` is how far the worst job is from its
share, over what is allowed: 5 % of the share, or one quantum and the longest iteration if that
is more; at most 1 is to be reached. `newcomer`: in the second half a ninth job begins, with
weight 2. `share` is its device time over its share of that half; `ahead_s` what it had beyond
its share, against a quantum and the longest iteration. Device time is what the service counts,
in `status`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, progress
from .one_lane import QUANTUM_S, Client, device_times, product_s
from .report import Report, at_least, at_most

ITERATIONS_S = (0.001, 0.003, 0.005, 0.008, 0.012, 0.017, 0.023, 0.030)
WEIGHTS = (1, 2, 4, 1, 2, 4, 1, 2)
NEWCOMER = (0.010, 2)  # seconds of an iteration, weight
IN_FLIGHT = 2
RUN_S = 60.0
QUICK_RUN_S = 6.0
WITHIN = 0.05
CASES = ("weights", "newcomer")


def cases() -> list[str]:
    return list(CASES)


def shares(weights: dict[str, float], all_s: float) -> dict[str, float]:
    """Of `all_s` seconds, by weight."""
    total = sum(weights.values())
    return {name: all_s * weight / total for name, weight in weights.items()}


def excess(had: dict[str, float], weights: dict[str, float], longest_s: float) -> float:
    """How far the worst job is from its share, over what is allowed."""
    due = shares(weights, sum(had[name] for name in weights))
    return max(
        abs(had[name] - due[name]) / max(WITHIN * due[name], QUANTUM_S + longest_s)
        for name in weights
    )


def run(options: Options) -> Report:
    report = Report("fairness")
    calibration = Calibration()
    product = product_s()
    for case in filter(options.wants, cases()):
        progress(f"fairness: {case}")
        calibration.sample()
        measure(case, QUICK_RUN_S if options.quick else RUN_S, product, report)
    calibration.add_to(report)
    return report


def measure(case: str, run_s: float, product: float, report: Report) -> None:
    words = ("--standby", "0", "--lanes", "1", "--policy", f"fair:quantum_s={QUANTUM_S}")
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("512MiB", words=words))
        service = stack.enter_context(laneway.connect(daemon.address))
        jobs = [
            Client(service, f"job{i}", seconds, product, weight=float(weight))
            for i, (seconds, weight) in enumerate(zip(ITERATIONS_S, WEIGHTS, strict=True))
        ]
        weights = {job.name: float(w) for job, w in zip(jobs, WEIGHTS, strict=True)}
        if case == "newcomer":
            seconds, weight = NEWCOMER
            jobs.append(Client(service, "newcomer", seconds, product, weight=float(weight)))
            weights["newcomer"] = float(weight)
        # Captured, measured and alone: the longest iteration is known before the run.
        longest = max(min(job.once() for _ in range(4)) for job in jobs)
        first = jobs[: len(ITERATIONS_S)]
        for job in first:
            stack.callback(job.end)
            job.begin(IN_FLIGHT)
        if case == "newcomer":
            time.sleep(run_s / 2)
            stack.callback(jobs[-1].end)
            jobs[-1].begin(IN_FLIGHT)
            had = _over(service, run_s / 2)
            _report_newcomer(had, weights, longest, report)
        else:
            time.sleep(1.0)  # all have work
            had = _over(service, run_s)
            _report_weights(had, weights, longest, report)


def _over(service: Any, seconds: float) -> dict[str, float]:
    before = device_times(service)
    time.sleep(seconds)
    after = device_times(service)
    return {name: after[name] - before.get(name, 0.0) for name in after}


def _report_weights(
    had: dict[str, float], weights: dict[str, float], longest: float, report: Report
) -> None:
    due = shares(weights, sum(had.values()))
    for name in weights:
        report.add("weights", f"{name}_s", had[name], "s", note=f"its share is {due[name]:.3f} s")
    report.add("weights", "longest_iteration_ms", longest * 1e3, "ms")
    report.add("weights", "excess", excess(had, weights, longest), "ratio", at_most(1.0),
               samples=list(had.values()))  # fmt: skip


def _report_newcomer(
    had: dict[str, float], weights: dict[str, float], longest: float, report: Report
) -> None:
    due = shares(weights, sum(had.values()))["newcomer"]
    got = had["newcomer"]
    allowed = max(WITHIN * due, QUANTUM_S + longest)
    report.add("newcomer", "share", got / due, "ratio", at_least(1 - allowed / due))
    report.add("newcomer", "ahead_s", got - due, "s", at_most(QUANTUM_S + longest))
