"""start: how long until the service is there, until a client is connected, and until the first
result?

Each sample is a lanewayd of its own and two fresh Python processes (bench/start_probe.py) that have
imported torch before: one connects to it, the other opens the engine in its own process. The first
result is that of mlp's first training step, capture included."""

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
CONNECT = at_most(50)


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
            report.add(CASE, "connect_ms", None, "ms", CONNECT, note=str(error))
            return report
        for metric, value in sample.items():
            found.setdefault(metric, []).append(value)
    for metric, values in found.items():
        target = CONNECT if metric == "connect_ms" else None
        note = f"median of {len(values)}; longest {max(values):.4g}"
        report.add(CASE, metric, stats.median(values), "ms", target, samples=values, note=note)
    calibration.add_to(report)
    return report


def _sample() -> dict[str, float]:
    with Daemon("512MiB") as daemon:
        served = _probe(daemon.address)
        own = _probe("")
        return {
            "daemon_ready_ms": daemon.ready_s * 1e3,
            "connect_ms": served["open_s"] * 1e3,
            "first_result_after_connect_ms": served["first_s"] * 1e3,
            "embedded_open_ms": own["open_s"] * 1e3,
            "first_result_after_embedded_open_ms": own["first_s"] * 1e3,
        }


def _probe(address: str) -> dict[str, float]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    done = subprocess.run(
        [sys.executable, "-m", "bench.start_probe", address],
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
