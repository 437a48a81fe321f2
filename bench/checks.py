"""checks: what is compared before each call of a step, and how long does that take?

A graph is of one form of call: before each call the step compares what its capture took as
constant. That is asked again and again of a step in a process of its own (bench/checks_probe.py),
in two halves: `reads_us`, what the capture read of the user's Python (`guards` reads), and
`model_us`, the modules, parameters, optimizer, hooks and modes of torch. The targets are those of
the reads. A sample is the shortest of many short runs, because nothing makes a check faster."""

from __future__ import annotations

import subprocess

from . import stats
from .capture import found_by
from .harness import Calibration, Options, progress
from .report import Report, at_most

# Of 12 layers: torch's own encoder, and GPT-2 of transformers, which reads a configuration, too.
TARGETS_US = {"mlp": 3, "resnet18": 10, "encoder_12": 15, "gpt2_12": 15}
MOST_PROCESSES = 7
QUICK_PROCESSES = 1


def cases() -> list[str]:
    return list(TARGETS_US)


def run(options: Options) -> Report:
    report = Report("checks")
    calibration = Calibration()
    processes = min(options.trials, QUICK_PROCESSES if options.quick else MOST_PROCESSES)
    for name, most in TARGETS_US.items():
        if not options.wants(name):
            continue
        progress(f"checks: {name}")
        calibration.sample()
        try:
            found = [found_by("checks_probe", [name], options) for _ in range(processes)]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            report.add(name, "reads_us", None, "us", at_most(most), note=str(error))
            continue
        for metric in ("guards", "reads_us", "model_us"):
            samples = [sample[metric] for sample in found]
            target = at_most(most) if metric == "reads_us" else None
            unit = "reads" if metric == "guards" else "us"
            report.add(name, metric, stats.median(samples), unit, target, samples=samples)
    calibration.add_to(report)
    return report
