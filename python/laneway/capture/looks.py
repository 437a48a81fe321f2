"""Looks at state that C code holds: arrays, memory, context variables, caches, registrations.

A look gives what a call compares. What the step changes there no graph repeats: it is put back, and
refused.
"""

from __future__ import annotations

import _abc
import abc
import array
import contextlib
import contextvars
import ctypes
import io
import operator
import queue
import sys
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_CDATA = ctypes.c_byte.__mro__[2]  # the class of all that ctypes gives
MEMORY = (bytearray, memoryview, array.array, _CDATA)
# An array of more bytes is not copied in each call, and compared in its place.
FEW_BYTES = 1 << 16


class Variable:
    """The value of a context variable."""

    def __call__(self, of: contextvars.ContextVar[Any]) -> Any:
        try:
            return of.get()
        except LookupError:
            return None

    def put(self, of: contextvars.ContextVar[Any], value: Any) -> None:
        """Makes `value` what is there."""
        of.set(value)


def variables_of(of: contextvars.Context) -> tuple:
    """The variables that a context has, with their values."""
    return tuple(of.items())


def class_of_referent(of: weakref.ref[Any]) -> type:
    """The class of what a weak reference leads to, which a guard must not keep alive."""
    return type(of())


class Length:
    """How much is in a queue."""

    def __call__(self, of: queue.SimpleQueue[Any]) -> int:
        return of.qsize()

    def put(self, of: queue.SimpleQueue[Any], value: int) -> None:
        with contextlib.suppress(queue.Empty):
            parts = [of.get_nowait() for _ in range(of.qsize())]
            for part in parts[:value]:
                of.put(part)


# Of each cache of functools its hits and misses at the last look, and how often it was cleared.
_counts: weakref.WeakKeyDictionary[Any, tuple[int, int, int]] = weakref.WeakKeyDictionary()


def clears_of(cache: Any) -> int:
    """How often a cache was cleared, as far as looks at it saw: its counts begin anew then."""
    hits, misses, *_ = cache.cache_info()
    before_hits, before_misses, clears = _counts.get(cache, (0, 0, 0))
    clears += hits < before_hits or misses < before_misses
    _counts[cache] = hits, misses, clears
    return clears


def registered_with(of: abc.ABCMeta) -> frozenset[Any]:
    """The classes that are registered with an abstract class, and with those below it that Python
    made of the same kind."""
    found = set(_abc._get_dump(of)[0])
    for below in type.__subclasses__(of):
        found |= registered_with(below) if isinstance(below, abc.ABCMeta) else set()
    return frozenset(found)


def registered_with_itself(of: abc.ABCMeta) -> frozenset[Any]:
    """The same without those below, of which a library's class may have very many."""
    return frozenset(_abc._get_dump(of)[0])


def content_of_file(of: io.StringIO | io.BytesIO) -> str | bytes | None:
    """What a file in memory has; None when it is closed."""
    return None if of.closed else of.getvalue()


class Memory:
    """Whether the bytes of an object of C code are as they were, without a copy of them in each
    call, where they lie together."""

    def __init__(self, of: Any) -> None:
        self._known = bytearray(memoryview(of))

    def __call__(self, of: Any) -> bool:
        view = memoryview(of)
        if view.nbytes != len(self._known):
            return False
        return bytearray.__eq__(self._known, of if view.c_contiguous else view.tobytes())

    def put(self, of: Any, value: bool) -> None:
        if not value:
            return
        if isinstance(of, _CDATA):
            ctypes.memmove(ctypes.addressof(of), bytes(self._known), len(self._known))
        elif isinstance(of, array.array):
            of[:] = array.array(of.typecode, bytes(self._known))
        elif isinstance(of, memoryview):
            if not of.readonly:
                self._put_view(of)
        else:
            of[:] = self._known

    def _put_view(self, of: memoryview) -> None:
        if of.c_contiguous:
            of.cast("B")[:] = self._known
        else:
            of[:] = memoryview(self._known).cast(of.format)


class Values:
    """The form and the bytes of a small array."""

    def __call__(self, array: Any) -> tuple:
        return *_form(array), array.tobytes()

    def put(self, array: Any, value: tuple) -> None:
        if _form(array) == value[:-1] and array.flags.writeable:
            before = array.copy(order="C")
            memory = (ctypes.c_char * before.nbytes).from_address(before.ctypes.data)
            memory[:] = value[-1]
            array[...] = before


class IsStill:
    """Whether an array is as it was, without a copy of it in each call."""

    def __init__(self, array: Any) -> None:
        with _disable_current_modes():
            self._form, self._known = _form(array), _numbers(array).clone()

    def __call__(self, array: Any) -> bool:
        with _disable_current_modes():
            return _form(array) == self._form and torch.equal(_numbers(array), self._known)

    def put(self, array: Any, value: bool) -> None:
        if value and array.flags.c_contiguous | array.flags.f_contiguous:
            with _disable_current_modes():
                _numbers(array).copy_(self._known)


class Objects:
    """Whether an array has the same objects, which stay alive, so that no other one has their
    address."""

    def __init__(self, array: Any) -> None:
        self._form, self._known = _form(array), array.ravel().tolist()

    def __call__(self, array: Any) -> bool:
        if _form(array) != self._form:
            return False
        return all(map(operator.is_, array.ravel().tolist(), self._known))

    def put(self, array: Any, value: bool) -> None:
        for at, known in enumerate(self._known if value else ()):
            array.flat[at] = known


def is_array(kind: type) -> bool:
    """Whether objects of this class are numpy's arrays."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.ndarray)


def is_numpy_generator(kind: type) -> bool:
    """Whether they draw numpy's random numbers."""
    is_numpy = (kind.__module__ or "").startswith("numpy.random")
    return is_numpy and kind.__name__ in ("Generator", "RandomState")


def _numbers(array: Any) -> torch.Tensor:
    """The array's bytes as numbers, in its own memory where its elements lie together; read only
    arrays too."""
    if array.flags.f_contiguous:
        array = array.T
    if not array.flags.c_contiguous:
        array = array.copy()
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    memory.of = array  # type: ignore[attr-defined]  # keeps it alive
    whole = array.nbytes % 8 == 0 and array.ctypes.data % 8 == 0
    return torch.frombuffer(memory, dtype=torch.int64 if whole else torch.uint8)


def _form(array: Any) -> tuple:
    return str(array.dtype), array.shape, array.strides
