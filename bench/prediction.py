"""What capture predicts of an iteration's memory, held against what its probe did.

Both are a tape with marks (bench/tapes.py). An operator's workspace is an allocation that is made
and freed within one node and is not one of the results that capture knows of: those that die where
they are made, because nobody uses them, are told apart by their size. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .tapes import Tape, padded

Marks = Sequence[tuple[int, int]]  # (allocations, frees) before each node and behind the last


@dataclass(frozen=True)
class Comparison:
    """Live-byte peaks of one iteration, each allocation padded to the alignment."""

    predicted: int
    recorded: int  # workspaces left out
    recorded_with_workspaces: int
    curve_error: float  # mean over nodes of |predicted - recorded|, over the recorded peak

    @property
    def under(self) -> float:
        """By what share of the recorded peak the prediction is too low."""
        return max(0.0, (self.recorded - self.predicted) / self.recorded)

    @property
    def over(self) -> float:
        """By what share of the recorded peak the prediction is too high."""
        return max(0.0, (self.predicted - self.recorded) / self.recorded)

    @property
    def workspace_bytes(self) -> int:
        """How much of the peak is there because of workspaces."""
        return self.recorded_with_workspaces - self.recorded


def compare(predicted: Tape, predicted_marks: Marks, tape: Tape, marks: Marks) -> Comparison:
    """Raises ValueError when the marks are not of one graph."""
    if len(predicted_marks) != len(marks) or len(marks) < 2:
        raise ValueError(
            f"a prediction over {len(predicted_marks)} marks and a tape over {len(marks)}"
        )
    kept, kept_marks = without(tape, marks, workspaces(predicted, predicted_marks, tape, marks))
    recorded = kept.live_bound()
    ours = highest_by_node(predicted, predicted_marks)
    theirs = highest_by_node(kept, kept_marks)
    differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    return Comparison(
        predicted=predicted.live_bound(),
        recorded=recorded,
        recorded_with_workspaces=tape.live_bound(),
        curve_error=sum(differences) / len(differences) / recorded,
    )


def workspaces(predicted: Tape, predicted_marks: Marks, tape: Tape, marks: Marks) -> set[int]:
    """Allocations of `tape` that only the inside of one operator ever saw."""
    passing = _passing(predicted, predicted_marks)
    found = set()
    for node, indices in enumerate(_passing(tape, marks)):
        results = Counter(predicted.allocations[index][0] for index in passing[node])
        # The last ones first: what an operator returns it makes after what it works with.
        for index in reversed(indices):
            size = tape.allocations[index][0]
            if results[size] > 0:
                results[size] -= 1
            else:
                found.add(index)
    return found


def _passing(tape: Tape, marks: Marks) -> list[list[int]]:
    """By node: the allocations that were made and freed in it, in order."""
    nodes = []
    for (first, freed), (end, freed_by_end) in pairwise(marks):
        gone = set(tape.frees[freed:freed_by_end])
        nodes.append([index for index in range(first, end) if index in gone])
    return nodes


def without(tape: Tape, marks: Marks, left_out: set[int]) -> tuple[Tape, list[tuple[int, int]]]:
    """The tape and its marks as if the allocations `left_out` had never been made."""
    numbers: dict[int, int] = {}
    for index in range(len(tape.allocations)):
        if index not in left_out:
            numbers[index] = len(numbers)
    frees_kept = [0]
    for index in tape.frees:
        frees_kept.append(frees_kept[-1] + (index not in left_out))
    made_kept = [0]
    for index in range(len(tape.allocations)):
        made_kept.append(made_kept[-1] + (index not in left_out))
    kept = Tape(
        [(tape.allocations[i][0], frees_kept[tape.allocations[i][1]]) for i in numbers],
        [numbers[index] for index in tape.frees if index not in left_out],
    )
    return kept, [(made_kept[made], frees_kept[freed]) for made, freed in marks]


def highest_by_node(tape: Tape, marks: Marks) -> list[int]:
    """The highest sum of live bytes within each node."""
    live = freed = 0

    def free_until(count: int) -> None:
        nonlocal live, freed
        while freed < count:
            live -= padded(tape.allocations[tape.frees[freed]][0])
            freed += 1

    highest = []
    for (first, freed_before), (end, _) in pairwise(marks):
        free_until(freed_before)
        most = live
        for size, frees_before in tape.allocations[first:end]:
            free_until(frees_before)
            live += padded(size)
            most = max(most, live)
        highest.append(most)
    return highest
