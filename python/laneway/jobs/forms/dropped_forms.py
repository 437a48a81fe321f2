"""DroppedForms: which forms of call were captured once and dropped for lack of room."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from laneway.jobs.calls.graph_call import Form, GraphCall
from laneway.jobs.calls.use_guards import UseGuards
from laneway.jobs.forms.conditions import Conditions, Snapshot

# Entries that are remembered: signatures of arguments, no tensors. More forms than these in turn
# are told of by the number of captures.
_MOST = 64


class DroppedForms:
    """Remembers the last dropped forms, and keeps neither graphs nor modules alive: a form is
    forgotten with the last graph that was captured under the same conditions. Not thread-safe."""

    def __init__(self) -> None:
        self.count = 0  # of all that were ever dropped
        self._last: deque[tuple[Form, UseGuards, weakref.ref[Snapshot]]] = deque(maxlen=_MOST)

    def add(self, call: GraphCall) -> None:
        """Notes the form of a graph that was dropped."""
        self.count += 1
        self._last.append((call.form, call.reads, weakref.ref(call.conditions)))

    def has(self, args: tuple, kwargs: dict[str, Any], conditions: Conditions) -> bool:
        """Whether a call is of a form that was dropped."""
        for form, reads, seen in self._last:
            snapshot = seen()
            if snapshot is None or form.difference(args, kwargs) is not None:
                continue
            if conditions.hold(snapshot) and reads.difference() is None:
                return True
        return False
