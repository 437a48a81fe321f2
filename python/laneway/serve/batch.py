"""Requests of a model that wait, and what of them runs as one iteration."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from typing import Any

from laneway.serve.spec import Shapes, Spec


@dataclasses.dataclass(eq=False, slots=True)
class Ask:
    """One request: the bytes of each input, by the model's order. `answer`: of each output of the
    graph its shape and bytes."""

    shapes: Shapes
    data: list[Any]
    answer: asyncio.Future[Any]
    since_ns: int = dataclasses.field(default_factory=time.perf_counter_ns)
    gone: bool = False
    iteration: Any = None  # the one that runs it

    @property
    def rows(self) -> int:
        return self.shapes[0][0]


def form_rows(rows: int, most: int) -> int:
    """The rows of the form that runs so many."""
    size = 1
    while size < rows:
        size *= 2
    return min(size, most)


def form_shapes(spec: Spec, shapes: Shapes) -> Shapes:
    """The form that runs a request of these shapes alone."""
    return with_rows(shapes, form_rows(shapes[0][0], spec.max_batch)) if spec.batched() else shapes


def with_rows(shapes: Shapes, rows: int) -> Shapes:
    return tuple((rows, *shape[1:]) for shape in shapes)


def kind(spec: Spec, shapes: Shapes) -> Shapes:
    """The same for shapes that differ in rows of a batch alone."""
    return with_rows(shapes, 0) if spec.batched() else shapes


def all_forms(spec: Spec, shapes: Shapes) -> list[Shapes]:
    """The forms that a request of these shapes, and others that differ in rows alone, run in."""
    if not spec.batched():
        return [shapes]
    sizes = [1]
    while sizes[-1] < spec.max_batch:
        sizes.append(min(2 * sizes[-1], spec.max_batch))
    return [with_rows(shapes, rows) for rows in sizes]


class Waiting:
    """The queue of a model, first come, first served."""

    def __init__(self) -> None:
        self._asks: collections.deque[Ask] = collections.deque()

    def __len__(self) -> int:
        return len(self._asks)

    def add(self, ask: Ask) -> None:
        self._asks.append(ask)

    def remove(self, ask: Ask) -> None:
        if ask in self._asks:
            self._asks.remove(ask)

    def oldest_ns(self) -> int:
        return self._asks[0].since_ns

    def take_all(self) -> list[Ask]:
        taken, self._asks = list(self._asks), collections.deque()
        return taken

    def take(self, spec: Spec) -> list[Ask]:
        """The oldest, and with max_batch those behind it that fit into its batch."""
        first = self._asks.popleft()
        if not spec.batched():
            return [first]
        taken, rows, passed = [first], first.rows, []
        tail = with_rows(first.shapes, 0)
        while self._asks and rows < spec.max_batch:
            ask = self._asks.popleft()
            if rows + ask.rows <= spec.max_batch and with_rows(ask.shapes, 0) == tail:
                taken.append(ask)
                rows += ask.rows
            else:
                passed.append(ask)
        self._asks.extendleft(reversed(passed))
        return taken

    def rows(self, spec: Spec) -> int:
        """How many rows the next batch would have."""
        tail = with_rows(self._asks[0].shapes, 0)
        fitting = (ask.rows for ask in self._asks if with_rows(ask.shapes, 0) == tail)
        return min(sum(fitting), spec.max_batch)


def joined(asks: list[Ask], rows: int) -> list[Any]:
    """The inputs of a form of so many rows: those of the requests, then zeros."""
    if len(asks) == 1 and asks[0].rows == rows:
        return asks[0].data
    made = []
    for index in range(len(asks[0].data)):
        parts = [ask.data[index] for ask in asks]
        have = sum(ask.rows for ask in asks)
        row_bytes = len(parts[0]) // asks[0].rows
        made.append(b"".join([*parts, bytes(row_bytes * (rows - have))]))
    return made


def divided(asks: list[Ask], outputs: list[bytearray], rows: int) -> list[list[Any]]:
    """For each request the bytes of its rows of each output."""
    answers, at = [], 0
    for ask in asks:
        answers.append(
            [
                memoryview(data)[len(data) // rows * at : len(data) // rows * (at + ask.rows)]
                for data in outputs
            ]
        )
        at += ask.rows
    return answers
