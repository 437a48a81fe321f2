"""Variants: the graphs of one step or inference, one for each form of call that it met.

A call has another form when its tensors have other shapes, dtypes or strides, its other arguments
other values, what the step decides by in its inputs is otherwise (see Guards), or what it was
captured under has changed (see Conditions). Such a call is captured
again, over the same image. The variants used last are kept, at most `limit`; the others are
dropped, and captured anew should they come back, which is told once. Variants for inputs that begin
at other places (input_places.py) count as one: there are 16 for two inputs of float32.
"""

from __future__ import annotations

import collections
import contextlib
import re
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from laneway.capture.signature import OtherForm
from laneway.capture.user_lines import is_raised_by_user
from laneway.errors import Error, InvalidInput, LayoutError
from laneway.jobs.calls.graph_call import GraphCall
from laneway.jobs.calls.inputs import Frame
from laneway.jobs.calls.job import Future
from laneway.jobs.forms.conditions import Conditions, Snapshot
from laneway.jobs.forms.dropped_forms import DroppedForms
from laneway.jobs.forms.preparation import Preparation, forms_of
from laneway.jobs.watch.capture_gate import CaptureGate, JointGate
from laneway.jobs.watch.watched import quietly
from laneway.native.process import ProcessLock
from laneway.operators import layouts

# How the engine names the operator: torch_graph_runner.cc, fail().
_LAID_OUT = re.compile(r"', node \d+ \((aten::[\w.]+)\): gave [^;]*, the graph declares ")

# Captures of one step after which it is told that its calls rarely look alike.
_MANY_CAPTURES = 32
# Graphs for inputs at several places that count as one: of two inputs of float32 all places.
_MOST_PLACES = 16
# Graphs that one step keeps at most, unless `limit` is more: half of what the service keeps of a
# job (base/limits.h), which an inference of the same job shares.
_MOST_KEPT = 32


class Variants:
    """Thread-safe. `capture(args, kwargs)` makes the graph for a call; captures of one step follow
    each other. `found()` is called when the graph of a call was captured or is not the one used
    last. Both are methods of whoever holds the variants, and are held weakly: an owner that is
    let go is gone at once, not when its cycle is collected."""

    def __init__(
        self,
        what: str,
        limit: int,
        conditions: Conditions,
        gate: CaptureGate | JointGate,
        capture: Callable[[tuple, dict[str, Any]], GraphCall],
        found: Callable[[], None] | None = None,
    ) -> None:
        if limit < 1:
            raise InvalidInput(f"max_variants = {limit}: a {what} needs at least 1 graph")
        self._what = what
        self._limit = limit
        self._conditions = conditions
        self._gate = gate
        self._capture = weakref.WeakMethod(capture)
        self._found = None if found is None else weakref.WeakMethod(found)
        self._lock = ProcessLock()
        self._known: list[GraphCall] = []  # the one used last at the end
        self._captures = 0
        self._dropped = DroppedForms()
        self._told_of_drops = False
        self._preparing: list[Preparation] = []  # those that may have forms left
        self.current: GraphCall | None = None  # the one used last

    def run(
        self, args: tuple, kwargs: dict[str, Any], beside: Callable[[], None] | None = None
    ) -> Any:
        """One iteration of the variant for this call, captured if need be; and beside() while the
        service runs it."""
        while True:
            call, frame = self._quickly(args, kwargs) or self._find(args, kwargs)
            try:
                if beside is not None or self._preparing:
                    return call.run_beside(frame, beside or self._advance)
                return call.run(frame)
            except LayoutError as error:
                self._measure(call, error)

    def submit(self, args: tuple, kwargs: dict[str, Any]) -> Future:
        """The same without waiting."""
        call, frame = self._quickly(args, kwargs) or self._find(args, kwargs)
        future = call.submit(frame, on_other_layout=lambda error: self._measure(call, error))
        if self._preparing:
            self._advance()
        return future

    def _measure(self, call: GraphCall, error: LayoutError) -> None:
        """The next call of this form is captured again, with what the operator really gives.
        Raises `error` when that was known to the capture."""
        with self._lock:
            if call not in self._known:
                return  # another call of it was told before this one
            self._known.remove(call)
            self.current = None
        found = _LAID_OUT.search(str(error))
        if found is None or not layouts.distrust(found.group(1)):
            raise error

    def prepare(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Captures the variant for this call if need be; it is the current one from here on."""
        self._find(args, kwargs)

    def prepare_many(self, calls: Sequence[Any], background: bool) -> Preparation:
        """The captures of all these calls: made now, or beside the next calls."""
        made = Preparation(forms_of(calls, self._what, self._limit), self._prepare_aside)
        if background:
            self._preparing.append(made)
        else:
            made.result()
        return made

    def counts(self) -> dict[str, int]:
        """How many graphs were captured, are kept, and were dropped for lack of room."""
        made, dropped = self._captures, self._dropped.count
        return {"made": made, "kept": len(self._known), "dropped": dropped}

    def guards(self) -> list[int]:
        """Of each kept graph, how many of its capture's reads of Python a call compares."""
        return [call.reads.count for call in self._known]

    def _advance(self) -> None:
        """Captures the next form that is to be prepared."""
        for preparation in list(self._preparing):
            if not preparation.done():
                preparation.advance()
                return
            with contextlib.suppress(ValueError):  # another thread removed it
                self._preparing.remove(preparation)

    def _prepare_aside(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """prepare(), and the current variant stays the current one."""
        with self._lock:
            before = self.current
            self._find(args, kwargs)
            if before is None:
                return
            if before in self._known:
                self._known.remove(before)
                self._known.append(before)
            self.current = before

    def _quickly(self, args: tuple, kwargs: dict[str, Any]) -> tuple[GraphCall, Frame] | None:
        """The current variant with this call's inputs, if it is of its form; without waiting."""
        call, gate = self.current, self._gate
        seen = gate.seen()
        if call is None or seen < 0:
            return None
        try:
            # With others, which may be it, the exact look comes behind a short one at each.
            hold = call.reads.hold if len(self._known) == 1 else call.reads.hold_at_once
            if not self._conditions.hold(call.conditions) or not hold():
                return None
            if call.outer is not None and call.outer.difference() is not None:
                return None
            frame = call.take(args, kwargs)
        except OtherForm:
            return None
        except Exception:
            if gate.undisturbed(seen):
                raise
            return None
        return (call, frame) if gate.undisturbed(seen) else None

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> tuple[GraphCall, Frame]:
        """The variant for this call, captured if need be, with this call's inputs."""
        with self._lock:
            with self._gate.reading:
                call, difference = self._known_for(args, kwargs)
                if call is not None:
                    return self._use(call), call.take_known(args, kwargs)
                returns = not self._told_of_drops and self._dropped.has(
                    args, kwargs, self._conditions
                )
            call = self._captured(args, kwargs)
            self._captures += 1
            if returns:
                self._told_of_drops = True
                self._warn_of_drops(difference)
            if self._captures == _MANY_CAPTURES and difference is not None:
                self._warn(difference)
            self._make_room(call)
            with self._gate.reading:
                with quietly():
                    call.conditions = self._snapshot()
                return self._use(call), call.take_known(args, kwargs)

    def _make_room(self, call: GraphCall) -> None:
        """Drops what was used longest ago until `call` has room. The service drops a graph when
        nobody is inside a call of it any more."""
        while self._known:
            families = self._families(call)
            kept = sum(map(len, families)) <= max(self._limit, _MOST_KEPT)
            if kept and sum(map(_counted, families)) <= self._limit:
                return
            last_used = {id(known): n for n, known in enumerate((*self._known, call))}
            units = [unit for family in families for unit in _units(family)]
            unit = min(units, key=lambda unit: max(last_used[id(known)] for known in unit))
            for known in unit if call not in unit else unit[:1]:
                self._known.remove(known)
                self._dropped.add(known)

    def _families(self, call: GraphCall) -> list[list[GraphCall]]:
        """The graphs, `call` last: those together that differ in nothing but the places at which
        inputs begin and what they were captured under."""
        families: list[list[GraphCall]] = []
        for known in (*self._known, call):
            inputs = known.captured.inputs
            found = (family for family in families if family[0].captured.inputs.is_like(inputs))
            family = next(found, None)
            if family is None:
                families.append([known])
            else:
                family.append(known)
        return families

    def _snapshot(self) -> Snapshot:
        """What the conditions are now. Variants captured under the same ones share it."""
        for call in reversed(self._known):
            if self._conditions.hold(call.conditions):
                return call.conditions
        return self._conditions.now()

    def _known_for(
        self, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[GraphCall | None, str | None]:
        """The variant of this call's form, no longer known; or none, and how the call differs from
        the variant used last."""
        for call in reversed(self._known):
            if call.is_for(args, kwargs) and self._conditions.hold(call.conditions):
                self._known.remove(call)
                return call, None
        differences = []
        for call in reversed(self._known):
            difference = None
            if not self._conditions.hold(call.conditions):
                difference = self._conditions.difference(call.conditions)
            difference = difference or call.difference(args, kwargs)
            if difference is None:
                self._known.remove(call)
                return call, None
            differences.append(difference)
        return None, differences[0] if differences else None

    def held(self) -> ProcessLock:
        """With it no thread captures. Whoever takes locks of its own takes them behind it."""
        return self._lock

    def forget(self) -> None:
        """Forgets the graphs, which were those of a job that is given up."""
        with self._lock:
            self._known.clear()
            self.current = None

    def close(self) -> None:
        """Forgets all variants."""
        with self._lock:
            self._known.clear()
            self._preparing.clear()
            self.current = None

    def _use(self, call: GraphCall) -> GraphCall:
        self._known.append(call)
        self.current = call
        found = None if self._found is None else self._found()
        if found is not None:
            found()
        return call

    def _captured(self, args: tuple, kwargs: dict[str, Any]) -> GraphCall:
        capture = self._capture()
        assert capture is not None, "the owner is inside this call"
        first = not self._known
        try:
            return capture(args, kwargs)
        except Error:
            raise
        except Exception as error:
            if first or is_raised_by_user(error):
                raise
            raise InvalidInput(
                f"the {self._what} fails on these arguments, as eager execution would: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _warn(self, difference: str) -> None:
        warnings.warn(
            f"this {self._what} was captured {self._captures} times, lately because {difference}; "
            "every capture takes as long as the first call: pass what changes from call to call "
            "as a tensor, decide by values in tensors (torch.where), pad inputs to few shapes, or "
            f"raise max_variants (now {self._limit})",
            RuntimeWarning,
            stacklevel=5,
        )

    def _warn_of_drops(self, difference: str | None) -> None:
        cause = "" if difference is None else f", lately because {difference}"
        warnings.warn(
            f"this {self._what} captured a form of call again that it had dropped for lack of room "
            f"(max_variants = {self._limit}){cause}; every capture takes as long as the first "
            "call: pad inputs to a few sizes, or raise max_variants; prepare_many() of a step or "
            "inference captures all forms before the loop",
            RuntimeWarning,
            stacklevel=5,
        )


def _places(family: list[GraphCall]) -> collections.Counter[tuple]:
    return collections.Counter(known.captured.inputs.places() for known in family)


def _counted(family: list[GraphCall]) -> int:
    """As how many graphs the family counts: those for other places as one, up to _MOST_PLACES."""
    places = _places(family)
    return max(-(-len(places) // _MOST_PLACES), *places.values())


def _units(family: list[GraphCall]) -> list[list[GraphCall]]:
    """What is dropped together: graphs for other places, which count as one."""
    return [family] if len(_places(family)) > 1 else [[known] for known in family]
