"""Preparation: forms of call that are captured before, or while, a step runs."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from laneway.errors import InvalidInput, ServiceUnavailable
from laneway.native.process import ProcessLock

Form = tuple[tuple, dict[str, Any]]  # the arguments of one call


class Preparation:
    """The forms of one prepare_many(). They are captured one at a time: each call of the step
    captures one while the service runs the call's iteration, and result() captures those that are
    left. So a capture, which changes the model until it ends, runs in a thread of the caller's, and
    never beside the caller's own code of that thread. Thread-safe."""

    def __init__(self, forms: list[Form], capture: Callable[[tuple, dict[str, Any]], None]) -> None:
        """`capture` is a method, and is held weakly."""
        self._capture = weakref.WeakMethod(capture)
        self._given = len(forms)
        self._left = deque(enumerate(forms, start=1))
        self._error: Exception | None = None
        self._lock = ProcessLock()

    def done(self) -> bool:
        """Whether every form was captured, or failed to be."""
        return not self._left

    def result(self, timeout: float | None = None) -> None:
        """Captures the forms that are left. Raises the error of the first form that failed, whose
        last note has the number of the form; or TimeoutError when forms are left after `timeout`
        seconds, and may be called again."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._left:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(
                    f"{len(self._left)} of {self._given} forms are not captured after {timeout} s: "
                    "call result() again, or call the step, which captures one form in each call"
                )
            self.advance()
        if self._error is not None:
            raise self._error

    def advance(self) -> None:
        """Captures the next form. When that is interrupted (Ctrl-C), the form is left."""
        with self._lock:
            if not self._left:
                return
            number, form = self._left[0]
            try:
                capture = self._capture()
                if capture is None:
                    raise ServiceUnavailable("the step was let go before its forms were captured")
                capture(*form)
            except Exception as error:
                error.add_note(f"form {number} of {self._given} that prepare_many() was given")
                self._error = self._error or error
            self._left.popleft()


def forms_of(calls: Sequence[Any], what: str, limit: int) -> list[Form]:
    """The arguments of each call that prepare_many() was given. Raises InvalidInput when there are
    more calls than graphs are kept, or an entry is no call."""
    if len(calls) > limit:
        raise InvalidInput(
            f"prepare_many() was given {len(calls)} forms, and the {what} keeps max_variants = "
            f"{limit}: give at most {limit}, or make the {what} with max_variants={len(calls)}"
        )
    return [_form_of(call, number) for number, call in enumerate(calls, start=1)]


def _form_of(call: Any, number: int) -> Form:
    if isinstance(call, Mapping):
        return (), dict(call)
    if isinstance(call, (tuple, list)) and not isinstance(call, torch.Tensor):
        return tuple(call), {}
    raise InvalidInput(
        f"form {number} of prepare_many() is of type {type(call).__name__}: give the arguments of "
        "a call as a tuple, or as a dictionary of keywords"
    )
