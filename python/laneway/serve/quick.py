"""Quick: whether the event loop itself waits for an iteration. To hand one to a thread and back
takes longer than a small model computes, so where a model's iterations have ended at once lately,
the loop waits, for a bounded time. A wait in vain holds up everybody: it takes many quick ones to
earn the next."""

from __future__ import annotations

from laneway.serve import limits
from laneway.serve.native_job import Graph, Iteration


class Quick:
    """Of one model. Belongs to the event loop."""

    def __init__(self) -> None:
        self._credit = 0

    def at_once(self, graph: Graph, iteration: Iteration) -> bool:
        """Whether the iteration is over; if not, it is to be waited for elsewhere. Requires: no
        other one of the model is in flight, so that room for this one lies ready."""
        if self._credit < limits.AT_ONCE_CREDIT or not graph.has_run:
            return False
        if iteration.begin() or iteration.look(limits.AT_ONCE_NS):
            return True
        self._credit = 0
        return False

    def took(self, graph: Graph, taken_ns: int) -> None:
        """A thread has waited so long for an iteration."""
        graph.has_run = True
        quick = taken_ns < 2 * limits.AT_ONCE_NS  # it was handed over and back, too
        self._credit = min(self._credit + 1, limits.AT_ONCE_CREDIT) if quick else 0
