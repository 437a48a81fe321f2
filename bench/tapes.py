"""Allocation tapes as the benches handle them: read from a job's report, bounded apart from the
planner, written for laneway-plan-alloc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALIGNMENT = 64


@dataclass(frozen=True)
class Tape:
    """One iteration's allocations, each (bytes, frees that precede it), and in what order the
    allocations were freed."""

    allocations: Sequence[tuple[int, int]]
    frees: Sequence[int]

    @staticmethod
    def of(recorded: dict[str, Any]) -> Tape:
        """One of the tapes in a job's report."""
        return Tape([tuple(entry) for entry in recorded["allocations"]], recorded["frees"])

    def live_bound(self, alignment: int = ALIGNMENT) -> int:
        """Highest sum of live bytes, each padded: no plan can be lower."""
        live = highest = freed = 0
        for size, frees_before in self.allocations:
            for index in self.frees[freed:frees_before]:
                live -= padded(self.allocations[index][0], alignment)
            freed = max(freed, frees_before)
            live += padded(size, alignment)
            highest = max(highest, live)
        return highest

    def write(self, path: Path) -> None:
        """In the form that laneway-plan-alloc reads; what was never freed is freed at the end."""
        freed = set(self.frees)
        rest = [index for index in range(len(self.allocations)) if index not in freed]
        frees = [*self.frees, *rest]
        lines = [f"{len(self.allocations)} {len(frees)}"]
        lines += [f"{size} {before}" for size, before in self.allocations]
        lines += map(str, frees)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def padded(size: int, alignment: int = ALIGNMENT) -> int:
    """What an allocation of `size` bytes takes."""
    return (max(size, 1) + alignment - 1) // alignment * alignment
