"""early: how much less memory does a training step take when each parameter is updated as soon as
its gradient is complete, and what does that cost?

The training step of each model is captured and run alone, in its late form and in its early one
(laneway-early-form), each by the plan with the lowest peak for its own tape on this machine, in
turn, from the same state; a form that leaves other bits fails. The bound is the highest sum of live
bytes, worked out here from the tape. `time_over_late` is the ratio of medians; nothing is logged to
take an iteration back, which saves the same bytes in both forms."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import models
from .harness import Calibration, Options, find_program, progress
from .harness import single_thread_environment as one_thread
from .height import write_step
from .report import Report, at_most
from .tapes import Tape

TRIALS = 20
QUICK_TRIALS = 3
LARGE_GRADIENTS = ("resnet18", "vgg11", "densenet121", "mobilenet_v3_small")


def cases() -> list[str]:
    return list(models.NAMES)


def run(options: Options) -> Report:
    report = Report("early")
    calibration = Calibration()
    for name in models.NAMES:
        if not options.wants(name):
            continue
        progress(f"early: {name}")
        calibration.sample()
        trials = QUICK_TRIALS if options.quick else TRIALS
        try:
            with tempfile.TemporaryDirectory() as folder:
                write_step(Path(folder), name, options.threads)
                found = measure(Path(folder), trials, options.threads)
            add_rows(name, found, report)
        except (OSError, RuntimeError, ValueError) as error:
            for metric in ("bound_over_late", "time_over_late"):
                report.add(name, metric, None, "ratio", targets(name)[metric], note=str(error))
    calibration.add_to(report)
    return report


def targets(name: str) -> dict[str, Any]:
    bound = 0.82 if name in LARGE_GRADIENTS else 1.0
    return {"bound_over_late": at_most(bound), "time_over_late": at_most(1.03)}


def measure(folder: Path, trials: int, threads: int) -> dict[str, Any]:
    """What laneway-early-form prints; RuntimeError with its last words."""
    command = [str(find_program("laneway-early-form")), str(folder), str(trials)]
    environment = os.environ | one_thread(threads)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"it ended with {done.returncode}")
    return json.loads(done.stdout)


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
        unit = "MiB" if metric == "late_bound" else "ratio"
        first = metric == "bound_over_late"
        report.add(
            name, metric, value, unit, targets(name).get(metric), note=note if first else None
        )
