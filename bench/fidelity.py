"""fidelity: does the simulator say beforehand how long jobs take in a service?

The jobs, cases and runs of the bench policies_real, and those that it kept (real_runs.py). The
machine is calibrated by micro-benches (`laneway calibrate`: times of the five models alone and
beside each other, from turn to turn, of an offer, of copies), and what the jobs will take is
predicted from that, before any of them runs.

`average_jct_off`, `makespan_off` and `p95_jct_off` are how far the median of the runs is from the
prediction, above or below, of it. Null where repeats, or the times alone before and after the
calibration's other measures, differ by more than 5 %."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from .harness import Calibration, Options
from .policies_real import SPREAD, unsteady
from .real_jobs import Ran, load
from .real_runs import CASES, cases_of, runs_of
from .report import Report, at_most
from .stats import percentile

OFF, P95_OFF = at_most(0.05), at_most(0.10)


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("fidelity")
    runs = runs_of("fidelity", options, plain=False)
    drifted = drift(runs.predicted.calibration)
    for case in cases_of(options):
        for policy, found in runs.live(case).items():
            said = runs.predicted.summaries[case][policy]
            add(case, policy, said, [run for _, run in found], drifted, report)
    Calibration(runs.loops_ms()).add_to(report)
    return report


def drift(calibration: dict[str, Any]) -> str | None:
    """Why nothing can be predicted from it; None: it is steady."""
    worst, name = max(
        (abs(model["iteration_again_ns"] / model["iteration_ns"] - 1), name)
        for name, model in calibration["models"].items()
    )
    if worst <= SPREAD:
        return None
    return f"{name} took {worst:.0%} more or less when it was measured again, {load()}"


def add(
    case: str,
    policy: str,
    predicted: dict[str, Any],
    runs: list[Ran],
    drifted: str | None,
    report: Report,
) -> None:
    for metric, key, target, of_run in (
        ("average_jct", "average_jct_s", OFF, lambda run: mean(run.jct_s)),
        ("makespan", "makespan_s", OFF, lambda run: run.makespan_s),
        ("p95_jct", "p95_jct_s", P95_OFF, lambda run: percentile(run.jct_s, 95)),
    ):
        samples = [of_run(run) for run in runs]
        said = predicted[key]
        report.add(case, f"{policy}/{key}", median(samples), "s", samples=samples)
        report.add(case, f"{policy}/{key}_predicted", said, "s")
        why = drifted or unsteady(samples)
        off = None if why else abs(median(samples) / said - 1)
        report.add(case, f"{policy}/{metric}_off", off, "", target, note=why)
