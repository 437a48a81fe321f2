"""early: how much less memory does a training step take when each parameter is updated as soon as
its gradient is complete, and what does that cost?

The training step of each model is captured and run alone, in its late form and in its early one
(laneway-early-form), each by the plan with the lowest peak for its own tape on this machine, in
turn, from the same state; a form that leaves other bits fails. The bound is the highest sum of live
bytes, worked out here from the tape. `time_over_late` is the ratio of medians; nothing is logged to
take an iteration back, which saves the same bytes in both forms."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from . import models
from .harness import Options
from .height import each_step, printed_by
from .report import Report, at_most
from .tapes import Tape

TRIALS = 20
QUICK_TRIALS = 3
LARGE_GRADIENTS = ("resnet18", "vgg11", "densenet121", "mobilenet_v3_small")


def cases() -> list[str]:
    return list(models.NAMES)


def run(options: Options) -> Report:
    report = Report("early")
    trials = QUICK_TRIALS if options.quick else TRIALS

    def one(name: str, folder: Path) -> None:
        add_rows(name, measure(folder, trials, options.threads), report)

    each_step(options, report, one, targets)
    return report


def targets(name: str) -> dict[str, Any]:
    bound = 0.82 if name in LARGE_GRADIENTS else 1.0
    return {
        "bound_over_late": ("ratio", at_most(bound)),
        "time_over_late": ("ratio", at_most(1.03)),
    }


def measure(folder: Path, trials: int, threads: int) -> dict[str, Any]:
    """What laneway-early-form prints."""
    return printed_by("laneway-early-form", folder, trials, threads=threads)


def add_rows(name: str, found: dict[str, Any], report: Report) -> None:
    late = found["late"]
    early = found["early"]
    if early is None:
        raise ValueError(found["refused"])
    bounds = [Tape.of(form).live_bound() for form in (late, early)]
    times = [statistics.median(form["iteration_ns"]) for form in (late, early)]
    figures = {
        "bound_over_late": bounds[1] / bounds[0],
        "time_over_late": times[1] / times[0],
        "peak_over_late": early["peak_bytes"] / late["peak_bytes"],
        "late_bound": bounds[0] / 2**20,
        "early_commit_nodes": 1 - early["first_write"] / early["nodes"],
        "late_commit_nodes": 1 - late["first_write"] / late["nodes"],
    }
    note = f"{found['moved']} updates moved, {late['nodes']} nodes"
    for metric, value in figures.items():
        _, target = targets(name).get(metric, ("ratio", None))
        unit = "MiB" if metric == "late_bound" else "ratio"
        first = metric == "bound_over_late"
        report.add(name, metric, value, unit, target, note=note if first else None)
