"""What still holds tensors or numbers of a capture after its end.

A step stores what it computes where a watch does not see it: in a queue, an object array, a
context variable, an attribute of a tensor. Outside of the capture such a fake has no data, and the
store would have the capture's for ever. So each capture looks whether something of it is still
alive. Almost always nothing is, or only cycles that the collector frees; those are among objects
that are younger than the capture, so that the collector looks at no others. Of what is left after
that a store is what an object from before the capture holds.
"""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch

from laneway.errors import CaptureError
from laneway.graph.graph_ir import NO_VALUE
from laneway.native.process import SharedChange
from laneway.operators.scalars import SYMBOLS

_MOST_LOOKED_AT = 1000  # objects of one level whose holders are looked for
_MOST_LEVELS = 8  # of holders, from a tensor to a store
_CONTAINERS = (dict, list, set, tuple)

Given = ParamSpec("Given")
Captured = TypeVar("Captured")

_running = threading.local()  # .found: the notes of this thread's capture


class Notes:
    """The tensors of one run of a step: weak references, each with the number of its value."""

    def __init__(self, nodes: list[Any], recorder: object) -> None:
        """`nodes` are those that the run records, with a recorder that each number of the step
        holds."""
        self.nodes, self.recorder = nodes, weakref.ref(recorder)
        self.tensors: list[tuple[weakref.ref[torch.Tensor], int]] = []
        found = getattr(_running, "found", None)
        if found is not None:
            found.append(self)

    def source(self, value: int) -> str | None:
        """The line that computed the value."""
        for node in self.nodes:
            if any(value in result.values for result in node.results):
                return node.source or None
        return None


def none_survive(capture: Callable[Given, Captured]) -> Callable[Given, Captured]:
    """The capture, which raises CaptureError when an object from before it holds a tensor or number
    of it. The store is named, and has it no longer where it is a dictionary or a list."""

    @functools.wraps(capture)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Captured:
        outer, _running.found = getattr(_running, "found", None), []
        try:
            with _younger:
                captured = capture(*args, **kwargs)
                young = _younger_than(_running.found)
            _check(_running.found, young)
            return captured
        finally:
            _running.found = outer

    return call


class _Frozen:
    """While it is made, the collector looks at objects alone that were made since. Where the user
    has frozen objects himself it is not made."""

    def __init__(self) -> None:
        self.is_made = False

    def make(self) -> None:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            self.is_made = True

    def undo(self) -> None:
        if self.is_made:
            gc.unfreeze()
            self.is_made = False


_frozen = _Frozen()
_younger = SharedChange(_frozen.make, _frozen.undo)


def _younger_than(found: list[Notes]) -> set[int]:
    """The ids of the objects that were made since, when something that is noted is still alive."""
    if not _frozen.is_made or next(_alive(found), None) is None:
        return set()
    gc.collect()
    alive = next(_alive(found), None) is not None
    return set(map(id, gc.get_objects())) if alive else set()


def _alive(found: list[Notes]) -> Iterator[tuple[Any, Notes, int]]:
    """What is alive, and which value of which run it is."""
    for notes in found:
        for reference, value in notes.tensors:
            tensor = reference()
            if tensor is not None:
                yield tensor, notes, value
        recorder = notes.recorder()
        if recorder is not None:
            yield recorder, notes, NO_VALUE


def _check(found: list[Notes], young: set[int]) -> None:
    if not young:
        return
    parts: list[Any] = []
    values: dict[int, tuple[Notes, int]] = {}
    for part, *where in _alive(found):
        parts.append(part)
        values[id(part)] = where[0], where[1]
    held = _store_of(parts, young)
    if held is None:
        return
    part, holder, store = held
    words = _words(holder, part)
    if store is not holder and not isinstance(store, _CONTAINERS) and type(store) is not type:
        words += f", in a {type(store).__name__}," if words[:2] == "a " else ""
    _remove(holder, part)
    notes, value = values.get(id(part), (None, NO_VALUE))  # none of a number
    raise CaptureError(
        f"{words} still holds what the step computes, which would stay that of the capture",
        source=None if notes is None else notes.source(value),
        remedy="return the value from the step and keep it outside",
    )


def _store_of(parts: list[Any], young: set[int]) -> tuple[Any, Any, Any] | None:
    """One of the parts, who holds it, and the object from before by which that is alive, itself or
    over younger ones. None when there is none: the collector does not see through all that C++
    holds, such as hooks that refer to their tensor. A look at all objects for each level."""
    known: dict[int, Any] = {id(part): part for part in parts}
    ways = {number: (number, 0) for number in known}  # to each: ids of the part and its holder
    for _ in range(_MOST_LEVELS):
        holders = _holders(parts)
        ours = {id(known), id(parts), id(holders)}
        above: list[Any] = []
        for holder in holders:
            number = id(holder)
            if number in known or number in ours:
                continue
            inside = next((n for n in map(id, gc.get_referents(holder)) if n in ways), None)
            if inside is None:
                continue
            part, first = ways[inside]
            is_number = isinstance(holder, SYMBOLS)
            ways[number] = (number, 0) if is_number else (part, first or number)
            known[number] = holder
            if is_number:
                above.append(holder)
            elif number not in young and type(holder).__module__.partition(".")[0] != "laneway":
                return known[part], known[ways[number][1]], holder
            else:
                above.append(holder)
        del above[_MOST_LOOKED_AT:], holders  # each list is a holder, too
        parts = above
        if not parts:
            return None
    return None


def _holders(of: list[Any]) -> list[Any]:
    """Who holds one of them, but for code that runs."""
    found = gc.get_referrers(*of)
    return [h for h in found if not isinstance(h, types.FrameType) and h is not of]


def _words(holder: Any, part: Any) -> str:
    kind = type(holder).__name__
    if not isinstance(holder, _CONTAINERS):
        return f"a {kind}"
    if isinstance(holder, dict):
        keys = [key for key, value in dict.items(holder) if value is part]
        for owner in _holders([holder]):
            if getattr(owner, "__dict__", None) is holder and type(owner) is not dict:
                return f"the attribute {(keys or [None])[0]!r} of a {type(owner).__name__}"
        return f"the entry {keys[0]!r} of a dict" if keys else "a dict"
    for owner in _holders([holder]):
        if not isinstance(owner, _CONTAINERS):
            return f"a {kind} in a {type(owner).__name__}"
    return f"a {kind}"


def _remove(store: Any, part: Any) -> None:
    if isinstance(store, dict):
        for key in [key for key, value in dict.items(store) if value is part]:
            dict.__delitem__(store, key)
    elif isinstance(store, list):
        for place in [n for n, value in enumerate(list.__iter__(store)) if value is part][::-1]:
            list.__delitem__(store, place)
