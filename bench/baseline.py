"""What a service holds when it has no job: taken before and after it shows what stays."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from .daemon import Daemon, children_of
from .report import Report, at_most

SETTLE_S = 60.0
MOMENTS = 20  # at which descriptors are counted, 0.1 s apart
# A process that was started anew has not the same pages present as another.
ALLOWED = {"supervisor_memory_bytes": float(1 << 20)}
OVER = ("finished", "failed", "cancelled")


def resources(daemon: Daemon, service: Any, workers: int = 2) -> dict[str, float]:
    """What the service holds without a job, once its `workers` are all there."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        status = service.status()
        states = [worker["state"] for worker in status["workers"]]
        if states == ["ready"] * workers and not living(status):
            break
        time.sleep(0.1)
    return {
        "workers": float(len(status["workers"])),
        "jobs": float(len(living(status))),
        "pool_claimed_bytes": float(
            status["pool"]["persistent_bytes"] + status["pool"]["region_bytes"]
        ),
        "supervisor_descriptors": _kept_descriptors(daemon.process.pid),
        "supervisor_memory_bytes": anonymous_bytes(daemon.process.pid),
        "children": float(len(children_of(daemon.process.pid))),
    }


def _kept_descriptors(pid: int) -> float:
    """Those that stay: a message with a descriptor may pass through at any moment."""
    counts = []
    for _ in range(MOMENTS):
        counts.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        time.sleep(0.1)
    return float(min(counts))


def living(status: dict[str, Any]) -> list[Any]:
    return [job for job in status["jobs"] if job["state"] not in OVER]


def anonymous_bytes(pid: int) -> float:
    """Memory of the process that no other process shares and no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return float(found[1]) * 1024


def report_against(
    case: str, before: dict[str, float], after: dict[str, float], report: Report
) -> None:
    for what, value in after.items():
        limit = at_most(max(before[what] * 1.01, before[what] + ALLOWED.get(what, 0.0)))
        report.add(case, what, value, "bytes" if what.endswith("bytes") else "count", limit)
