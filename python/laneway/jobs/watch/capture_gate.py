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

from laneway.jobs.watch.shown_progress import shown
from laneway.jobs.watch.watched import quietly
from laneway.native.process import ProcessLock


class CaptureGate:
    """One per model; several models of one step have a JointGate. A capture must run inside
    capturing(). A reader must hold `reading`, which waits until captures of other threads have
    ended; or it must call seen() before it reads and discard the values unless undisturbed() is
    true afterwards, which waits for no capture. `of`: what the model is, for people."""

    def __init__(self, of: str) -> None:
        self._of = of
        self.reading = ProcessLock()
        self.count = 0  # captures begun
        self._inside = 0  # captures under way, one inside the other

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        with self.reading, quietly():
            self._inside += 1  # before the count: see seen()
            self.count += 1
            try:
                with shown(f"capturing {self._of}"):
                    yield
            finally:
                self._inside -= 1

    def seen(self) -> int:
        """The number of captures so far, for undisturbed(); -1 during a capture."""
        count = self.count  # a capture in this count is inside, or over, at the next line
        return -1 if self._inside else count

    def undisturbed(self, seen: int) -> bool:
        """Whether no capture ran at the time of seen() and none has begun since."""
        return seen == self.count


class JointGate:
    """The gates of several models as one, with the methods of CaptureGate."""

    def __init__(self, gates: list[CaptureGate]) -> None:
        # In one order everywhere, so that no two threads wait for each other.
        self._gates = sorted(gates, key=id)
        self.reading = _AllLocks([gate.reading for gate in self._gates])

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        with contextlib.ExitStack() as entered:
            for gate in self._gates:
                entered.enter_context(gate.capturing())
            yield

    def seen(self) -> int:
        """See CaptureGate. The sum stays as it is while no count grows."""
        counts = [gate.seen() for gate in self._gates]
        return -1 if -1 in counts else sum(counts)

    def undisturbed(self, seen: int) -> bool:
        """See CaptureGate."""
        return seen == sum(gate.count for gate in self._gates)


class _AllLocks:
    """Locks that are taken together, in their order. Re-entrant and thread-safe."""

    def __init__(self, locks: list[ProcessLock]) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        with contextlib.ExitStack() as entered:
            for lock in self._locks:
                entered.enter_context(lock)
            entered.pop_all()

    def __exit__(self, *exception: object) -> None:
        for lock in reversed(self._locks):
            lock.__exit__(*exception)


_gates: weakref.WeakValueDictionary[int, CaptureGate] = weakref.WeakValueDictionary()
_gates_lock = ProcessLock()


def gate_of(*models: torch.nn.Module) -> CaptureGate | JointGate:
    """The gate that all steps and inferences of these models in this process share."""
    if len(models) == 1:
        return _gate_of_one(models[0])
    return JointGate(list({id(model): _gate_of_one(model) for model in models}.values()))


def _gate_of_one(model: torch.nn.Module) -> CaptureGate:
    global _gates_lock
    if not _gates_lock.is_here():  # a child made by fork(), in which no capture runs
        _gates_lock = ProcessLock()
        _gates.clear()
    with _gates_lock:
        gate = _gates.get(id(model))
        if gate is None:
            gate = _gates[id(model)] = CaptureGate(type(model).__name__)
        return gate
