"""CaptureGate: keeps those who read a model apart from a capture that has it on fakes.

While a capture runs, the user's model and optimizer are not their own: parameters are fakes,
learning rates are symbols, the mode may be another. A call of a step reads some of that before
every iteration, in any thread.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator

import torch

from laneway.native.process import ProcessLock


class CaptureGate:
    """Whoever captures does it inside capturing(). Others read inside `reading`, which waits for
    captures of other threads to end; or without waiting: what was read counts if it is still
    undisturbed() since seen()."""

    def __init__(self) -> None:
        self.reading = ProcessLock()
        self._count = 0  # captures begun
        self._inside = 0  # captures under way, one inside the other

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        with self.reading:
            self._inside += 1  # before the count: see seen()
            self._count += 1
            try:
                yield
            finally:
                self._inside -= 1

    def seen(self) -> int:
        """The captures so far, for undisturbed(); -1 while one is under way."""
        count = self._count  # a capture that this counts is inside or over by the next line
        return -1 if self._inside else count

    def undisturbed(self, seen: int) -> bool:
        """Whether no capture was under way at seen(), nor has begun since."""
        return seen == self._count


_gates: weakref.WeakValueDictionary[int, CaptureGate] = weakref.WeakValueDictionary()
_gates_lock = ProcessLock()


def gate_of(model: torch.nn.Module) -> CaptureGate:
    """The gate of all steps and inferences of this model in this process; who holds it holds the
    model."""
    global _gates_lock
    if not _gates_lock.is_here():  # a child made by fork(), where nobody captures
        _gates_lock = ProcessLock()
        _gates.clear()
    with _gates_lock:
        gate = _gates.get(id(model))
        if gate is None:
            gate = _gates[id(model)] = CaptureGate()
        return gate
