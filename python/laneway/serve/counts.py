"""What a model did so far, as the statistics extension of KServe tells it, and for the metrics."""

from __future__ import annotations

import bisect
import dataclasses
from typing import Any

# The bounds of the histograms. The first ones are a small model's, the last one a deadline's.
_MS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
BOUNDS_NS = tuple(int(ms * 1e6) for ms in (*_MS, 300_000))


@dataclasses.dataclass(slots=True)
class Duration:
    """`parts`: how many were above the bound before and not above this one; the last, above all."""

    count: int = 0
    ns: int = 0
    parts: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(BOUNDS_NS) + 1))

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns
        self.parts[bisect.bisect_left(BOUNDS_NS, ns)] += 1

    def told(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclasses.dataclass(slots=True)
class Counts:
    """`rows`: of requests that were answered; `executions`: iterations that answered, of one or
    more requests; `batches`: how long they took, by their rows (1 for a model without batches)."""

    success: Duration = dataclasses.field(default_factory=Duration)
    fail: Duration = dataclasses.field(default_factory=Duration)
    cancel: Duration = dataclasses.field(default_factory=Duration)
    reject: Duration = dataclasses.field(default_factory=Duration)
    queue: Duration = dataclasses.field(default_factory=Duration)
    compute: Duration = dataclasses.field(default_factory=Duration)
    load: Duration = dataclasses.field(default_factory=Duration)
    batches: dict[int, Duration] = dataclasses.field(default_factory=dict)
    rows: int = 0
    executions: int = 0
    last_ms: int = 0

    def ran(self, rows: int, ns: int, now_ms: int) -> None:
        """An iteration has answered so many rows of requests."""
        self.executions += 1
        self.rows += rows
        self.last_ms = now_ms
        self.batches.setdefault(rows, Duration()).add(ns)

    def told(self, name: str, version: str) -> dict[str, Any]:
        durations = ("success", "fail", "queue", "cancel", "reject", "load")
        stats = {each: getattr(self, each).told() for each in durations}
        stats["compute_infer"] = self.compute.told()
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_ms,
            "inference_count": self.rows,
            "execution_count": self.executions,
            "inference_stats": stats,
            "batch_stats": [
                {"batch_size": rows, "compute_infer": took.told()}
                for rows, took in sorted(self.batches.items())
            ],
        }
