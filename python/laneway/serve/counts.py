"""What a model did so far, as the statistics extension of KServe tells it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(slots=True)
class Duration:
    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns

    def told(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclasses.dataclass(slots=True)
class Counts:
    """`rows`: of requests that were answered; `executions`: iterations, of one or more requests."""

    success: Duration = dataclasses.field(default_factory=Duration)
    fail: Duration = dataclasses.field(default_factory=Duration)
    cancel: Duration = dataclasses.field(default_factory=Duration)
    reject: Duration = dataclasses.field(default_factory=Duration)
    queue: Duration = dataclasses.field(default_factory=Duration)
    compute: Duration = dataclasses.field(default_factory=Duration)
    load: Duration = dataclasses.field(default_factory=Duration)
    rows: int = 0
    executions: int = 0
    last_ms: int = 0

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
            "batch_stats": [],
        }
