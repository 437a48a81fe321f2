"""CaptureGate: no thread reads a model while another thread captures it.

During a capture the user's model and optimizer are changed: parameters are fake tensors, learning
rates are symbols, the training mode may differ. Every call of a step, in any thread, reads some of
that state before its iteration.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator

import torch

from laneway.jobs.watched import quietly
from laneway.native.process import ProcessLock


class CaptureGate:
    """One per model. A capture must run inside capturing(). A reader must hold `reading`, which
    waits until captures of other threads have ended; or it must call seen() before it reads and
    discard the values unless undisturbed() is true afterwards, which waits for no capture."""

    def __init__(self) -> None:
        self.reading = ProcessLock()
        self._count = 0  # captures begun
        self._inside = 0  # captures under way, one inside the other

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        with self.reading, quietly():
            self._inside += 1  # before the count: see seen()
            self._count += 1
            try:
                yield
            finally:
                self._inside -= 1

    def seen(self) -> int:
        """The number of captures so far, for undisturbed(); -1 during a capture."""
        count = self._count  # a capture in this count is inside, or over, at the next line
        return -1 if self._inside else count

    def undisturbed(self, seen: int) -> bool:
        """Whether no capture ran at the time of seen() and none has begun since."""
        return seen == self._count


_gates: weakref.WeakValueDictionary[int, CaptureGate] = weakref.WeakValueDictionary()
_gates_lock = ProcessLock()


def gate_of(model: torch.nn.Module) -> CaptureGate:
    """The gate that all steps and inferences of `model` in this process share."""
    global _gates_lock
    if not _gates_lock.is_here():  # a child made by fork(), in which no capture runs
        _gates_lock = ProcessLock()
        _gates.clear()
    with _gates_lock:
        gate = _gates.get(id(model))
        if gate is None:
            gate = _gates[id(model)] = CaptureGate()
        return gate
