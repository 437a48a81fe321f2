"""OuterValues: the variables outside of a step's functions that their code reads, as a capture saw
them, and whether they are so still.

The functions run at capture only, so a number that they read from outside is a constant of the
graph. Numbers and strings are compared exactly, all other objects by identity.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import attrgetter, getitem, is_
from typing import Any

import torch

from laneway.capture.outer_names import is_empty, outer_names

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_contents_of = attrgetter("cell_contents")


class OuterValues:
    """Keeps the values alive. Of objects and dictionaries only entries with simple values count,
    and none of modules and optimizers, whose state is the job's. Thread-safe."""

    def __init__(self, functions: Iterable[Any]) -> None:
        outer = outer_names(functions)
        cells = [(name, cell) for name, cell in outer.cells if not is_empty(cell)]
        owned = (torch.nn.Module, torch.optim.Optimizer)
        state = {id(value.__dict__) for _, value in outer.held() if isinstance(value, owned)}
        entries = [(name, names, name) for name, names in outer.globals]
        entries += [
            entry
            for entry in outer.entries
            if id(entry[1]) not in state and _is_simple(entry[1][entry[2]])
        ]
        self._names = [name for name, _ in cells] + [words for words, _, _ in entries]
        self._cells = [cell for _, cell in cells]
        self._holders = [holder for _, holder, _ in entries]
        self._keys = [key for _, _, key in entries]
        self._values = self._now()

    def difference(self) -> str | None:
        """What has another value, in words; None when nothing has."""
        known = self._values
        try:
            now = self._now()
        except (KeyError, ValueError):
            return "a variable that the step reads is gone"
        if all(map(is_, now, known)):
            return None
        for name, value, before in zip(self._names, now, known):
            if value is not before and not _is_same(value, before):
                return f"{name}, which the step reads, is {_short(value)} and was {_short(before)}"
        self._values = now
        return None

    def _now(self) -> list[Any]:
        return [*map(_contents_of, self._cells), *map(getitem, self._holders, self._keys)]


def _is_simple(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_simple, value))
    return type(value) in _SIMPLE


def _is_same(a: Any, b: Any) -> bool:
    """Whether no computation can tell two simple values apart."""
    if type(a) is not type(b) or not (_is_simple(a) and _is_simple(b)):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(_is_same, a, b))
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    return a == b if type(a) is not complex else repr(a) == repr(b)


def _short(value: Any) -> str:
    text = repr(value) if _is_simple(value) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
