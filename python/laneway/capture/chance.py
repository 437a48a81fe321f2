"""Random generators of Python and numpy, and iterators, that a step draws from. A graph cannot
repeat that. The draw is found, put back where that can be, and refused.
"""

from __future__ import annotations

import builtins
import contextlib
import pickle
import random
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from laneway.capture.code_names import is_library
from laneway.capture.uses import Place, is_same
from laneway.errors import CaptureError
from laneway.native.process import SharedChange

_next = builtins.next
_capturing = threading.local()  # .chance: that of this thread's capture
_MOST_INNER = 4  # iterators in iterators
_DRAW_REMEDY = (
    "draw with torch (torch.rand(()), torch.randperm, torch.randint), which the step repeats, or "
    "draw outside of the step and give it the number as an argument"
)

Ran = TypeVar("Ran")


class Drew(CaptureError):
    """The step drew random numbers that are not torch's."""


class _Generator:
    """A generator of random numbers, and its state when the step began or came upon it."""

    def __init__(
        self, of: Any, words: str, get: Callable[[], Any], put: Callable[[Any], Any]
    ) -> None:
        self.of, self.words, self._get, self._put = of, words, get, put
        self._before = get()
        self._known = pickle.dumps(self._before)

    def has_moved(self) -> bool:
        return pickle.dumps(self._get()) != self._known

    def restore(self) -> None:
        if self.has_moved():
            self._put(self._before)


class Chance:
    """One per run of a step."""

    def __init__(self) -> None:
        self._generators = [
            _Generator(None, "Python's random", random.getstate, random.setstate),
        ]
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            get, put = numpy.random.get_state, numpy.random.set_state
            self._generators.append(_Generator(None, "numpy.random", get, put))
        self._iterators: dict[int, tuple[Any, str, Any]] = {}

    def add_generator(self, of: Any, place: Place) -> None:
        """A generator that the step comes upon."""
        words = f"{place.words or 'a generator'} (a {type(of).__name__})"
        if isinstance(of, random.Random):
            get, put = of.getstate, of.setstate
        elif hasattr(of, "bit_generator"):
            get, put = (
                lambda: of.bit_generator.state,
                lambda s: setattr(of.bit_generator, "state", s),
            )
        else:
            get, put = of.get_state, of.set_state
        self._generators.append(_Generator(of, words, get, put))

    def add_iterator(self, of: Any, place: Place) -> None:
        """An iterator that the step comes upon."""
        self._iterators[id(of)] = of, place.words or "an iterator", _position(of)

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """Inside, next() of a known iterator raises before the iterator moves."""
        with _serving:
            around, _capturing.chance = getattr(_capturing, "chance", None), self
            try:
                yield
            finally:
                _capturing.chance = around

    def check_next(self, of: Any, frame: types.FrameType) -> None:
        """Raises CaptureError when the iterator is not the step's own."""
        known = self._iterators.get(id(of))
        if known is not None:
            line = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            raise _moved(known[1], f"{line} in {frame.f_code.co_name}")

    def check(self) -> None:
        """Raises CaptureError for the first that moved, or may have."""
        for generator in self._generators:
            if generator.has_moved():
                raise Drew(
                    f"the step draws from {generator.words}, which would happen at capture only",
                    remedy=_DRAW_REMEDY,
                )
        for of, words, before in self._iterators.values():
            if before is None or not is_same(_position(of), before):
                raise _moved(words, None)

    def restore(self) -> None:
        """Puts back what can be."""
        for generator in self._generators:
            generator.restore()
        for of, _, before in self._iterators.values():
            now = _position(of)
            if before is None or now is None or is_same(now, before):
                continue
            if before[0] == "file":
                of.seek(before[1])
                if of.writable():
                    of.truncate()
            elif before[0] == "reduced" and len(before[1]) == 3 and hasattr(of, "__setstate__"):
                of.__setstate__(before[1][2])

    def draws(self, function: Any) -> bool:
        """Whether a call of this C function draws from one of the generators."""
        of = getattr(function, "__self__", None)
        if isinstance(of, random.Random) or any(g.of is of for g in self._generators if g.of):
            return True
        return type(of).__module__.startswith("numpy.random")


def located(run: Callable[[], Ran]) -> Ran:
    """run(), which captures. When it draws, it is run once more to find the line that does."""
    try:
        return run()
    except Drew as drew:
        found: list[str] = []
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, of: _look(frame, event, of, found))
        try:
            with contextlib.suppress(Exception):
                run()
        finally:
            sys.setprofile(before)
        raise CaptureError(
            drew.message, source=found[0] if found else None, remedy=drew.remedy
        ) from None


def _look(frame: types.FrameType, event: str, of: Any, found: list[str]) -> None:
    chance = getattr(_capturing, "chance", None)
    if event != "c_call" or found or chance is None or not chance.draws(of):
        return
    user: types.FrameType | None = frame
    while user is not None and is_library(user.f_code):
        user = user.f_back
    if user is not None:
        file = user.f_code.co_filename.rpartition("/")[2]
        found.append(f"{file}:{user.f_lineno} in {user.f_code.co_name}")


def _moved(words: str, source: str | None) -> CaptureError:
    return CaptureError(
        f"the step takes from {words}, an iterator that is not its own, which would happen at "
        "capture only",
        source=source,
        remedy="call next() outside of the step, and give the step what it gives as an argument",
    )


def _position(of: Any, depth: int = 0) -> Any:
    """Where an iterator is, so that two equal positions are one; None when that cannot be told."""
    if isinstance(of, types.GeneratorType):
        frame = of.gi_frame
        if frame is None:
            return ("over",)
        return ("new",) if frame.f_lasti < 0 or _is_new(of) else None
    if hasattr(of, "tell") and hasattr(of, "seek"):
        with contextlib.suppress(Exception):
            return "file", of.tell()
        return None
    if hasattr(of, "_num_yielded"):  # of a DataLoader
        return "yielded", of._num_yielded
    if depth == _MOST_INNER or type(of).__module__ not in ("builtins", "itertools", "collections"):
        return None
    with warnings.catch_warnings(), contextlib.suppress(TypeError, AttributeError):
        warnings.simplefilter("ignore")
        return "reduced", tuple(_part(part, depth) for part in of.__reduce__())
    return None


def _part(part: Any, depth: int) -> Any:
    if isinstance(part, tuple):
        return tuple(_part(p, depth) for p in part)
    is_iterator = hasattr(type(part), "__next__")
    return _position(part, depth + 1) or object() if is_iterator else part


def _is_new(of: types.GeneratorType) -> bool:
    import inspect

    return inspect.getgeneratorstate(of) == inspect.GEN_CREATED


def _checked_next(*arguments: Any) -> Any:
    chance = getattr(_capturing, "chance", None)
    if chance is not None and arguments:
        chance.check_next(arguments[0], sys._getframe(1))
    return _next(*arguments)


def _serve() -> None:
    builtins.next = _checked_next


def _leave() -> None:
    builtins.next = _next


_serving = SharedChange(_serve, _leave)
