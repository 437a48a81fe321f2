"""capture: how long does the first call of a training step take?

Each sample is a process of its own (bench/capture_probe.py) that has imported torch, as its user
would, and then takes the time from `import laneway` to the first loss: what torch imports because
of us is ours. The parts say where it goes; `plan_s` comes behind the first result and is not in
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from . import models, stats
from .harness import Calibration, Options, progress, single_thread_environment
from .report import ROOT, Report, Target, at_most

SMALL = ("mlp", "cnn", "gpt")
MOST_PROCESSES = 7  # of one model; a sample takes seconds
QUICK_PROCESSES = 3
TIMEOUT_S = 300.0


def cases() -> list[str]:
    return list(models.NAMES)


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
    samples = calibration.samples_ms
    report.add("calibration", "loop_ms", stats.median(samples), "ms", samples=samples)
    return report


def probe(model: str, options: Options) -> dict[str, float]:
    """What bench.capture_probe found in a fresh process. RuntimeError with its reason when it
    failed."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    env = os.environ | {"PYTHONPATH": path} | single_thread_environment(options.threads)
    command = [sys.executable, "-m", "bench.capture_probe", model]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _report(name: str, samples: list[dict[str, float]], report: Report) -> None:
    by_part = {part: [sample[part] for sample in samples] for part in samples[0]}
    total = by_part.pop("total_s")
    note = f"median of {len(total)} processes"
    report.add(
        name, "first_result_s", stats.median(total), "s", target_of(name), samples=total, note=note
    )
    for part, times in by_part.items():
        report.add(name, part, stats.median(times), "s", samples=times)
