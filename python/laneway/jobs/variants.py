"""Variants: the graphs of one step or inference, one for each form of call that it met.

A call has another form when its tensors have other shapes, dtypes or strides, its other arguments
other values, what the step decides by in its inputs is otherwise (see Guards), or what it was
captured under has changed (see Conditions). Such a call is captured
again, over the same image. The variants used last are kept, at most `limit`; the others are
dropped, and captured anew should they come back.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from laneway.capture.signature import OtherForm
from laneway.errors import Error, InvalidInput, LayoutError
from laneway.jobs.capture_gate import CaptureGate
from laneway.jobs.conditions import Conditions
from laneway.jobs.graph_call import GraphCall
from laneway.jobs.inputs import Frame
from laneway.jobs.job import Future
from laneway.jobs.watched import quietly
from laneway.native.process import ProcessLock
from laneway.operators import layouts

# How the engine names the operator: torch_graph_runner.cc, fail().
_LAID_OUT = re.compile(r"', node \d+ \((aten::[\w.]+)\): gave a tensor with strides")

# Captures of one step after which it is told that its calls rarely look alike.
_MANY_CAPTURES = 32


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
        gate: CaptureGate,
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
        self.current: GraphCall | None = None  # the one used last

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One iteration of the variant for this call, captured if need be."""
        while True:
            call, frame = self._quickly(args, kwargs) or self._find(args, kwargs)
            try:
                return call.run(frame)
            except LayoutError as error:
                self._measure(call, error)

    def submit(self, args: tuple, kwargs: dict[str, Any]) -> Future:
        """The same without waiting."""
        call, frame = self._quickly(args, kwargs) or self._find(args, kwargs)
        return call.submit(frame, on_other_layout=lambda error: self._measure(call, error))

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

    def _quickly(self, args: tuple, kwargs: dict[str, Any]) -> tuple[GraphCall, Frame] | None:
        """The current variant with this call's inputs, if it is of its form; without waiting."""
        call, gate = self.current, self._gate
        seen = gate.seen()
        if call is None or seen < 0:
            return None
        try:
            if not self._conditions.hold(call.conditions):
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
            call = self._captured(args, kwargs)
            self._captures += 1
            if self._captures == _MANY_CAPTURES and difference is not None:
                self._warn(difference)
            # A variant's graph is dropped when nobody is inside a call of it any more.
            while len(self._known) >= self._limit:
                self._known.pop(0)
            with self._gate.reading:
                with quietly():
                    call.conditions = self._conditions.now()
                return self._use(call), call.take_known(args, kwargs)

    def _known_for(
        self, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[GraphCall | None, str | None]:
        """The variant of this call's form, no longer known; or none, and how the call differs from
        the variant used last."""
        differences = []
        for call in reversed(self._known):
            difference = self._conditions.difference(call.conditions)
            difference = difference or call.difference(args, kwargs)
            if difference is None:
                self._known.remove(call)
                return call, None
            differences.append(difference)
        return None, differences[0] if differences else None

    def close(self) -> None:
        """Forgets all variants."""
        with self._lock:
            self._known.clear()
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
        if not self._known:
            call = capture(args, kwargs)
        else:
            try:
                call = capture(args, kwargs)
            except Error:
                raise
            except Exception as error:
                raise InvalidInput(
                    f"the {self._what} fails on these arguments, as eager execution would: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return call

    def _warn(self, difference: str) -> None:
        warnings.warn(
            f"this {self._what} was captured {self._captures} times, lately because {difference}; "
            "every capture takes as long as the first call: pass what changes from call to call "
            "as a tensor, decide by values in tensors (torch.where), pad inputs to few shapes, or "
            f"raise max_variants (now {self._limit})",
            RuntimeWarning,
            stacklevel=5,
        )
