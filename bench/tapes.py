"""Allocation tapes as the benches handle them: read from a job's report, bounded and compared with
plans apart from the planner, written for laneway-plan-alloc."""

from __future__ import annotations

import itertools
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

    def peak(self, offsets: Sequence[int], alignment: int = ALIGNMENT) -> int:
        """The end of the highest block of a plan; ValueError when two that are alive together
        overlap, or one is not aligned."""
        ends = self.ends(offsets, alignment)
        alive: set[int] = set()
        freed = 0
        for block, (_, frees_before) in enumerate(self.allocations):
            alive.difference_update(self.frees[freed:frees_before])
            freed = max(freed, frees_before)
            if offsets[block] % alignment:
                raise ValueError(f"allocation {block} lies at {offsets[block]}")
            for other in alive:
                if offsets[other] < ends[block] and offsets[block] < ends[other]:
                    raise ValueError(f"allocations {other} and {block} overlap")
            alive.add(block)
        return max(ends, default=0)

    def ends(self, offsets: Sequence[int], alignment: int = ALIGNMENT) -> list[int]:
        """Of the blocks of a plan."""
        sizes = (padded(size, alignment) for size, _ in self.allocations)
        return [offset + size for offset, size in zip(offsets, sizes, strict=True)]

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


@dataclass(frozen=True)
class Span:
    """What happens between two marks of a tape: the blocks that are alive at any moment of it, and
    the highest sum of live bytes, each padded."""

    blocks: frozenset[int]
    live: int


def spans(tape: Tape, marks: Sequence[Sequence[int]], alignment: int = ALIGNMENT) -> list[Span]:
    """One for each mark (allocations and frees so far), to the next one or the end of the tape."""
    found = []
    alive: set[int] = set()
    live = freed = 0

    def free_to(count: int) -> None:
        nonlocal live, freed
        for block in tape.frees[freed:count]:
            alive.remove(block)
            live -= padded(tape.allocations[block][0], alignment)
        freed = max(freed, count)

    # A mark before the first one: what precedes it is no span of anybody.
    bounds = [(0, 0), *marks, (len(tape.allocations), len(tape.frees))]
    for (first, _), (last, frees) in itertools.pairwise(bounds):
        seen, highest = set(alive), live
        for block in range(first, last):
            free_to(tape.allocations[block][1])
            alive.add(block)
            seen.add(block)
            live += padded(tape.allocations[block][0], alignment)
            highest = max(highest, live)
        free_to(frees)
        found.append(Span(frozenset(seen), highest))
    return found[1:]


def padded(size: int, alignment: int = ALIGNMENT) -> int:
    """What an allocation of `size` bytes takes."""
    return (max(size, 1) + alignment - 1) // alignment * alignment
