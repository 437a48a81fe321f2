"""Lets a capture see which attributes the step reads and writes.

While a capture runs, torch.nn.Module and classes of the user's and of libraries tell the capture of
their thread of each attribute that is looked up, set or deleted in one of their objects. Other
threads find the classes as they are, only slower.
"""

from __future__ import annotations

import contextlib
import os
import threading
import types
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from laneway.native.process import SharedChange

_capturing = threading.local()  # .watch: the watch of this thread's capture
_NO_VALUE = object()
_getattr = getattr  # not the one that tells (lookups.py): this is asked for each attribute


class Listener(Protocol):
    """Who is told."""

    def read(self, of: Any, name: str) -> None:
        """The attribute `name` of `of` was looked up; it may not be there."""

    def written(self, of: Any, name: str) -> None:
        """It is about to be set or deleted."""


class _Patch:
    """The watched form of one class."""

    def __init__(self, of: type) -> None:
        self._of = of
        self._own = {
            name: vars(of).get(name, _NO_VALUE)
            for name in ("__getattribute__", "__setattr__", "__delattr__")
        }

    def make(self) -> None:
        get, put, drop = self._of.__getattribute__, self._of.__setattr__, self._of.__delattr__

        def getattribute(self: Any, name: str) -> Any:
            watch = _getattr(_capturing, "watch", None)
            if watch is not None:
                watch.read(self, name)
            return get(self, name)

        def setattr_(self: Any, name: str, value: Any) -> None:
            watch = getattr(_capturing, "watch", None)
            if watch is not None:
                watch.written(self, name)
            put(self, name, value)

        def delattr_(self: Any, name: str) -> None:
            watch = getattr(_capturing, "watch", None)
            if watch is not None:
                watch.written(self, name)
            drop(self, name)

        getattribute.own = self._own["__getattribute__"]  # type: ignore[attr-defined]
        hooks = (getattribute, setattr_, delattr_)
        for name, hook in zip(self._own, hooks):
            type.__setattr__(self._of, name, hook)

    def undo(self) -> None:
        for name, own in self._own.items():
            if own is not _NO_VALUE:
                type.__setattr__(self._of, name, own)
            elif name in vars(self._of):
                type.__delattr__(self._of, name)


class _Patches:
    """Which classes are watched, by how many captures. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[type, tuple[_Patch, int]] = {}
        os.register_at_fork(after_in_child=self._after_fork)

    def add(self, of: type) -> bool:
        """Watches the class; False when Python does not let it be changed."""
        with self._lock:
            patch, count = self._made.get(of) or (_Patch(of), 0)
            if count == 0:
                try:
                    patch.make()
                except (TypeError, AttributeError):  # a class of C code
                    return False
            self._made[of] = patch, count + 1
            return True

    def remove(self, of: type) -> None:
        with self._lock:
            patch, count = self._made.pop(of)
            if count > 1:
                self._made[of] = patch, count - 1
            else:
                patch.undo()

    def _after_fork(self) -> None:
        """No other thread's capture goes on here, and none of this one's."""
        self._lock = threading.Lock()
        for patch, _ in self._made.values():
            patch.undo()
        self._made.clear()


_patches = _Patches()
_module = _Patch(torch.nn.Module)
_modules = SharedChange(_module.make, _module.undo)


class Patched:
    """The classes that one capture watches."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._classes: dict[type, bool] = {}

    def watches(self, of: type) -> bool:
        """Watches the class from here on; False when Python does not let it be changed."""
        if of not in self._classes:
            self._classes[of] = _patches.add(of)
        return self._classes[of]

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Inside, the listener is told of what this thread does."""
        with _modules:
            around, _capturing.watch = getattr(_capturing, "watch", None), self._listener
            try:
                yield
            finally:
                _capturing.watch = around
                for of, is_watched in self._classes.items():
                    if is_watched:
                        _patches.remove(of)
                self._classes.clear()


def looks_up_itself(kind: type) -> type | None:
    """Which class of the object's has a way of its own to look attributes up, which nobody sees
    into."""
    for base in kind.__mro__:
        found = type.__getattribute__(base, "__dict__").get("__getattribute__")
        if isinstance(getattr(found, "own", found), types.FunctionType):
            return None if base is torch.nn.Module else base
    return None
