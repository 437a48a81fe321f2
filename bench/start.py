"""start: how long until the service is there, until a client is connected, and until the first
result?

Each sample is a lanewayd of its own and two fresh Python processes (bench/start_probe.py) that have
imported torch before: one connects to it, the other opens the engine in its own process. The first
result is that of mlp's first training step, capture included.

A third process (bench/choice_probe.py) has not imported torch: it takes the time of finding which
torch is there and which binary is for it, and of `import laneway` before that."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from . import stats
from .daemon import Daemon
from .harness import Calibration, Options, progress, single_thread_environment
from .report import ROOT, Report, at_most

CASE = "mlp"
MOST_SAMPLES = 10
QUICK_SAMPLES = 3
TIMEOUT_S = 120.0
TARGETS = {"connect_ms": at_most(50), "choose_binary_ms": at_most(1)}


def cases() -> list[str]:
    return [CASE]


def run(options: Options) -> Report:
    report = Report("start")
    calibration = Calibration()
    found: dict[str, list[float]] = {}
    for index in range(min(options.trials, QUICK_SAMPLES if options.quick else MOST_SAMPLES)):
        progress(f"start: sample {index + 1}")
        calibration.sample()
        try:
            sample = _sample()
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            report.add(CASE, "connect_ms", None, "ms", TARGETS["connect_ms"], note=str(error))
            return report
        for metric, value in sample.items():
            found.setdefault(metric, []).append(value)
    for metric, values in found.items():
        note = f"median of {len(values)}; longest {max(values):.4g}"
        value, target = stats.median(values), TARGETS.get(metric)
        report.add(CASE, metric, value, "ms", target, samples=values, note=note)
    calibration.add_to(report)
    return report


def _sample() -> dict[str, float]:
    with Daemon("512MiB") as daemon:
        served = _probe("start_probe", daemon.address)
        own = _probe("start_probe", "")
        choice = _probe("choice_probe")
        return {
            "import_ms": choice["import_s"] * 1e3,
            "choose_binary_ms": choice["choose_s"] * 1e3,
            "daemon_ready_ms": daemon.ready_s * 1e3,
            "connect_ms": served["open_s"] * 1e3,
            "first_result_after_connect_ms": served["first_s"] * 1e3,
            "embedded_open_ms": own["open_s"] * 1e3,
            "first_result_after_embedded_open_ms": own["first_s"] * 1e3,
        }


def _probe(module: str, *arguments: str) -> dict[str, float]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path} | single_thread_environment(1),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])
