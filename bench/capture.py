"""capture: how long does the first call of a training step take?

Each sample is a process of its own (bench/capture_probe.py) that has imported torch, as its user
would, and then takes the time from `import laneway` to the first loss: what torch imports because
of us is ours. The parts say where it goes; `plan_s` comes behind the first result and is not in
it.

The case equal_jobs makes many steps of one model in one process (bench/equal_jobs_probe.py): the
first call of a later one over that of the first, for steps that capture for themselves, whose
graphs the service finds equal, and for steps that are made like the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from . import models, stats
from .harness import Calibration, Options, progress, single_thread_environment
from .report import ROOT, Report, Target, at_most

EQUAL = "equal_jobs"
EQUAL_MODEL = "resnet18"
EQUAL_JOBS = 12  # of each kind
QUICK_EQUAL_JOBS = 3
SMALL = ("mlp", "cnn", "gpt")
MOST_PROCESSES = 7  # of one model; a sample takes seconds
QUICK_PROCESSES = 3
TIMEOUT_S = 300.0


def cases() -> list[str]:
    return [*models.NAMES, EQUAL]


def target_of(case: str) -> Target:
    return at_most(2 if case in SMALL else 8)


def run(options: Options) -> Report:
    report = Report("capture")
    calibration = Calibration()
    wanted = [name for name in models.NAMES if options.wants(name)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in wanted}
    failed: dict[str, str] = {}
    for index in range(min(options.trials, QUICK_PROCESSES if options.quick else MOST_PROCESSES)):
        calibration.sample()
        for name in wanted:
            if name in failed:
                continue
            progress(f"capture: {name}, process {index + 1}")
            try:
                found[name].append(probe(name, options))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed[name] = str(error)
    for name in wanted:
        if name in failed:
            target = target_of(name)
            report.add(name, "first_result_s", None, "s", target, note=failed[name])
        else:
            _report(name, found[name], report)
    if options.wants(EQUAL):
        progress(f"capture: equal jobs of {EQUAL_MODEL}")
        _report_equal_jobs(options, report)
    calibration.add_to(report)
    return report


def probe(model: str, options: Options) -> dict[str, float]:
    """What bench.capture_probe found in a fresh process. RuntimeError with its reason when it
    failed."""
    return found_by("capture_probe", [model], options)


def probe_equal_jobs(options: Options) -> dict[str, Any]:
    """What bench.equal_jobs_probe found in a fresh process, in the same way."""
    jobs = QUICK_EQUAL_JOBS if options.quick else EQUAL_JOBS
    return found_by("equal_jobs_probe", [EQUAL_MODEL, str(jobs)], options)


def found_by(program: str, arguments: list[str], options: Options) -> dict[str, Any]:
    """What the program of this folder printed. RuntimeError with its reason when it failed."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    env = os.environ | {"PYTHONPATH": path} | single_thread_environment(options.threads)
    command = [sys.executable, "-m", f"bench.{program}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _report_equal_jobs(options: Options, report: Report) -> None:
    kinds = ("like", "captured")
    try:
        found = probe_equal_jobs(options)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        for name in kinds:
            report.add(EQUAL, f"{name}_over_first", None, "ratio", note=str(error))
        return
    first = found["first_s"]
    report.add(EQUAL, "first_s", first, "s", samples=[first], note=EQUAL_MODEL)
    for name in kinds:
        times = found[f"{name}_s"]
        ratio = stats.median(times) / first
        report.add(EQUAL, f"{name}_s", stats.median(times), "s", samples=times)
        note = f"median of {len(times)} later jobs"
        report.add(EQUAL, f"{name}_over_first", ratio, "ratio", note=note)
    report.add(EQUAL, "probes", found["probes"], "iterations", at_most(1))


def _report(name: str, samples: list[dict[str, float]], report: Report) -> None:
    by_part = {part: [sample[part] for sample in samples] for part in samples[0]}
    total = by_part.pop("total_s")
    note = f"median of {len(total)} processes"
    report.add(
        name, "first_result_s", stats.median(total), "s", target_of(name), samples=total, note=note
    )
    for part, times in by_part.items():
        report.add(name, part, stats.median(times), "s", samples=times)
