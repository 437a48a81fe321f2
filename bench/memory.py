"""memory: do a job's bytes lie in the pool, and nowhere else?

ResNet-18 trains in a fresh process (bench/memory_probe.py), which reads in /proc/self how much of
the job's image and region is mapped and resident there, and what its anonymous memory grows by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from .harness import Options, progress, single_thread_environment
from .report import ROOT, Report, at_least, at_most

SHARE = at_least(0.95)
GROWTH = at_most(0.10)
MODEL = "resnet18"


def cases() -> list[str]:
    return [MODEL]


def run(options: Options) -> Report:
    report = Report("memory")
    if not options.wants(MODEL):
        return report
    progress(f"memory: {MODEL}")
    found = probe(MODEL, "10" if options.quick else "50", options.threads)
    if "error" in found:
        report.add(MODEL, "pool_share", None, "ratio", SHARE, note=found["error"])
        report.add(MODEL, "anonymous_growth", None, "ratio", GROWTH, note=found["error"])
        return report
    _report(found, report)
    return report


def probe(model: str, iterations: str, threads: int) -> dict[str, Any]:
    """What bench.memory_probe found in a process of its own, or {"error": why it did not}."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    env = os.environ | {"PYTHONPATH": path} | single_thread_environment(threads)
    command = [sys.executable, "-m", "bench.memory_probe", model, iterations]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return {"error": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def _report(found: dict[str, Any], report: Report) -> None:
    p, e = found["persistent_bytes"], found["ephemeral_bytes"]
    resident = found["resident_bytes"]
    mib = f"P {p / 2**20:.1f} MiB, E {e / 2**20:.1f} MiB"
    report.add(MODEL, "pool_share", resident / (p + e), "ratio", SHARE, note=mib)
    series = found["anonymous_bytes"]
    growth = [after - found["anonymous_before_bytes"] for after in series]
    report.add(
        MODEL,
        "anonymous_growth",
        max(growth) / e,
        "ratio",
        GROWTH,
        samples=[grown / e for grown in growth],
        note=f"highest of {len(growth)} iterations, from before the first",
    )
    capture = found["anonymous_before_bytes"] - found["anonymous_before_capture_bytes"]
    report.add(
        MODEL, "anonymous_of_capture", capture, "B", note="modules, graphs, initial optimizer state"
    )
    report.add(MODEL, "persistent_bytes", p, "B")
    report.add(MODEL, "ephemeral_bytes", e, "B")
