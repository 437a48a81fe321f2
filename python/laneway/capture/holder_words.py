"""Words for a store, from the objects that lead from what it holds to what code can reach."""

from __future__ import annotations

import contextvars
import itertools
import sys
import types
from collections.abc import Sequence
from typing import Any

import torch

from laneway.capture.recorder import Recorder
from laneway.capture.uses import attributes_of
from laneway.capture.varying import SYMBOLS
from laneway.operators.scalars import ScalarNode

_CONTAINERS = (dict, list, set, frozenset, tuple, types.CellType)


def is_scope(holder: Any) -> bool:
    """Whether it is the dictionary of a Python module's variables."""
    if type(holder) is not dict:
        return False
    module = sys.modules.get(str(holder.get("__name__")))
    return module is not None and attributes_of(module) is holder


def read_at(way: Sequence[Any]) -> str | None:
    """Of a number: the line that read it."""
    node = next((step for step in way if isinstance(step, ScalarNode)), None)
    _, is_read, line = "" if node is None else node.origin.rpartition(" read at ")
    return line if is_read else None


def store_words(way: Sequence[Any]) -> str:
    """The store: "the SimpleQueue losses", "the attribute 'last' of a Tensor"."""
    of_number = (Recorder, ScalarNode, types.MethodType, *SYMBOLS)
    if not isinstance(way[0], torch.Tensor):  # what of a number is held leads to the number
        inner = enumerate(way[:-1])
        way = way[max((n for n, step in inner if isinstance(step, of_number)), default=0) :]
    if isinstance(way[-1], contextvars.Context):
        return f"the context variable {_variable(way)!r}"
    key, owner = _attribute(way)
    if key is not None:
        above = list(itertools.dropwhile(lambda step: step is not owner, way))
        name, kind = _name(above), type(owner).__name__
        if isinstance(owner, type):
            return f"the attribute {key!r} of the class {owner.__name__}"
        return (
            f"the attribute {key!r} of {name} (a {kind})"
            if name
            else f"the attribute {key!r} of a {kind}"
        )
    if _name(way):
        return f"the variable {_name(way)!r}"
    store = next((n for n, s in enumerate(way) if n and not isinstance(s, _CONTAINERS)), 1)
    if _name(way[1:]):
        store = 1
    return f"the {type(way[store]).__name__} {_name(way[store:])}".rstrip()


def _attribute(way: Sequence[Any]) -> tuple[str | None, Any]:
    """The attribute that holds the first, and whose it is."""
    for owner in way[1:3]:
        entries = attributes_of(owner)
        is_its = owner is way[1] or (len(way) > 2 and entries is way[1])
        if is_its and entries is not None and not isinstance(owner, types.ModuleType):
            key = _key_of(entries, way[0])
            if key is not None:
                return key, owner
    return None, None


def _name(way: Sequence[Any]) -> str:
    """The variable or attribute that holds the first."""
    if len(way) < 2:
        return ""
    holder = way[1]
    if is_scope(holder):
        return _key_of(holder, way[0]) or ""
    if isinstance(holder, types.CellType):
        function = next((s for s in way if isinstance(s, types.FunctionType)), None)
        cells = zip(function.__code__.co_freevars, function.__closure__ or ()) if function else ()
        return next((name for name, cell in cells if cell is holder), "")
    return _attribute(way)[0] or ""


def _key_of(entries: Any, value: Any) -> str | None:
    return next((str(key) for key, held in list(entries.items()) if held is value), None)


def _variable(way: Sequence[Any]) -> str:
    held = {id(step) for step in way}
    return next((v.name for v, value in way[-1].items() if id(value) in held), "")
