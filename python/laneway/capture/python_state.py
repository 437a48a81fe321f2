"""Python state that a step's functions can reach and change: containers in attributes of modules
and in variables outside of the functions, attributes of plain objects there, and the variables.

The step's Python runs at capture only, so such a change would happen once, on fakes, and never
again. Every change is undone. What the step stores of its tensors is refused; a change of plain
values is refused unless it happens once only (see side_effects.settled). A tensor that is the same
in every iteration (a cached mask) may be kept: each iteration computes it again.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture.outer_names import OuterNames, is_empty, outer_names
from laneway.capture.recorder import Recorder
from laneway.errors import CaptureError
from laneway.graph.graph_ir import SlotKind, StorageKind, ValueKind

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_SEQUENCES = (list, collections.deque, set)
_SYMBOLS = (torch.SymFloat, torch.SymInt, torch.SymBool)
_DEPTH = 2  # containers in containers
_MOST_PARTS = 1000  # a larger container is watched, but not its parts
_OWN = frozenset(torch.nn.Module().__dict__)  # attributes that torch gives every module


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that the step changed: put(before) and put(after) give it either content."""

    words: str
    put: Callable[[Any], None]
    before: Any
    after: Any


@dataclasses.dataclass(frozen=True)
class _Watched:
    words: str
    read: Callable[[], Any]  # a copy of the content: a dictionary, or a list
    put: Callable[[Any], None]
    before: Any


class PythonState:
    """One per run of a step: made before it, settle() after it, restore() in any case."""

    def __init__(self, modules: Iterable[torch.nn.Module], functions: Iterable[Any]) -> None:
        self._watched: list[_Watched] = []
        self._seen: set[int] = set()
        for module in {id(m): m for root in modules for m in root.modules()}.values():
            for name, value in module.__dict__.items():
                if name not in _OWN:
                    self._add(value, f"{name!r} of a {type(module).__name__}", 0)
        outer = outer_names(functions)
        self._add_variables(outer)
        for name, value in outer.held():
            self._add(value, repr(name), 0)
            if _is_plain_object(value) and id(value.__dict__) not in self._seen:
                words = f"an attribute of {name!r} (a {type(value).__name__})"
                self._watch_mapping(value.__dict__, words)

    def settle(self, recorder: Recorder) -> list[Change]:
        """The changes of plain values. Raises CaptureError for a tensor or a number of the step
        that was stored."""
        changes: list[Change] = []
        varying: _Varying | None = None
        for watched in self._watched:
            after = watched.read()
            if _is_equal(watched.before, after):
                continue
            varying = varying or _Varying(recorder)
            stored = [part for part in _parts(after) if _is_of_step(part)]
            old = {id(part) for part in _parts(watched.before)}
            new = [part for part in stored if id(part) not in old]
            is_list = isinstance(after, list)
            if any(is_list or varying.holds(part) for part in new):
                raise refusal(watched.words, "it stores what the step computes")
            plain = after
            if new:  # of what every iteration computes again, nothing stays
                kept = {id(part) for part in new}
                plain = {k: v for k, v in after.items() if id(v) not in kept}
            if not _is_equal(watched.before, plain):
                changes.append(Change(watched.words, watched.put, watched.before, plain))
        return changes

    def restore(self) -> None:
        """Gives everything the content from before the run."""
        for watched in self._watched:
            if not _is_equal(watched.before, watched.read()):
                watched.put(watched.before)

    def _add(self, value: Any, words: str, depth: int) -> None:
        if type(value) not in (*_MAPPINGS, *_SEQUENCES) or id(value) in self._seen:
            return
        kind = type(value).__name__
        if type(value) in _MAPPINGS:
            self._watch_mapping(value, f"the {kind} {words}")
        else:
            self._seen.add(id(value))
            self._watched.append(
                _Watched(f"the {kind} {words}", _reader(value), _writer(value), list(value))
            )
        if depth < _DEPTH and len(value) <= _MOST_PARTS:
            parts = value.values() if type(value) in _MAPPINGS else value
            for part in list(parts):
                self._add(part, f"in {words}", depth + 1)

    def _watch_mapping(self, mapping: dict[Any, Any], words: str) -> None:
        self._seen.add(id(mapping))

        def put(content: dict[Any, Any]) -> None:
            mapping.clear()
            dict.update(mapping, content)  # a Counter's own update() adds

        self._watched.append(_Watched(words, lambda: dict(mapping), put, dict(mapping)))

    def _add_variables(self, outer: OuterNames) -> None:
        for name, cell in outer.cells:
            read, put = _cell_reader(cell), _cell_writer(cell)
            self._watched.append(_Watched(f"the variable {name!r}", read, put, read()))
        for name, names in outer.globals:
            read, put = _global_reader(names, name), _global_writer(names, name)
            self._watched.append(_Watched(f"the variable {name!r}", read, put, read()))


class _Varying:
    """Which values of a recorded step are not the same in every iteration: those that depend on
    inputs, on state or on random numbers."""

    def __init__(self, recorder: Recorder) -> None:
        self._table, slots = recorder.table, recorder.slots.slots
        self._storages = {
            number
            for number, storage in enumerate(self._table.storages)
            if storage.kind == StorageKind.input
            or (
                storage.kind == StorageKind.persistent
                and slots[storage.index].kind != SlotKind.constant
            )
        }
        self._values: set[int] = set()
        for node in recorder.nodes:
            if node.op in recorder.drawing or any(self._varies(v) for v in node.reads()):
                made = [v for result in node.results for v in result.values]
                for value in (*made, *node.writes):
                    self._note(value)

    def holds(self, part: Any) -> bool:
        """Whether the tensor or number is one of those values, or unknown."""
        if isinstance(part, _SYMBOLS):
            return True
        value = self._table.find(part)
        return value is None or self._varies(value)

    def _varies(self, value: int) -> bool:
        if value in self._values:
            return True
        described = self._table.values[value]
        return described.kind == ValueKind.tensor and described.storage in self._storages

    def _note(self, value: int) -> None:
        if value < len(self._table.values):  # NO_VALUE is beyond
            self._values.add(value)
            if self._table.values[value].kind == ValueKind.tensor:
                self._storages.add(self._table.values[value].storage)


def refusal(words: str, reason: str) -> CaptureError:
    """The error for a step that changes what `words` name."""
    return CaptureError(
        f"the step changes {words}: {reason}, which would happen at capture only",
        remedy="return the value from the step and keep it outside; or register a buffer (a "
        "tensor) of the model and write into it",
    )


def _is_of_step(part: Any) -> bool:
    return isinstance(part, (FakeTensor, *_SYMBOLS))


def _parts(content: Any) -> list[Any]:
    return list(content.values()) if isinstance(content, dict) else list(content)


def _is_equal(a: Any, b: Any) -> bool:
    """The same content, but without == of anything but plain values."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(key in b and _is_same(value, b[key]) for key, value in a.items())
    return all(map(_is_same, a, b))


def _is_same(a: Any, b: Any) -> bool:
    plain = (bool, int, float, str, bytes)
    return a is b or (type(a) is type(b) and type(a) in plain and a == b)


def _is_plain_object(value: Any) -> bool:
    """An object of a class of the user's, whose attributes are its state."""
    module = type(value).__module__.partition(".")[0]
    if isinstance(value, (type, types.FunctionType, types.MethodType, types.ModuleType)):
        return False
    if isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
        return False
    return (
        module not in ("torch", "laneway", "builtins")
        and type(getattr(value, "__dict__", None)) is dict
    )


def _reader(container: Any) -> Callable[[], list[Any]]:
    return lambda: list(container)


def _writer(container: Any) -> Callable[[Any], None]:
    def put(content: Any) -> None:
        container.clear()
        add = container.update if type(container) is set else container.extend
        add(content)

    return put


def _cell_reader(cell: types.CellType) -> Callable[[], dict[str, Any]]:
    return lambda: {} if is_empty(cell) else {"": cell.cell_contents}


def _cell_writer(cell: types.CellType) -> Callable[[Any], None]:
    def put(content: dict[str, Any]) -> None:
        if "" in content:
            cell.cell_contents = content[""]
        elif not is_empty(cell):
            del cell.cell_contents

    return put


def _global_reader(names: dict[str, Any], name: str) -> Callable[[], dict[str, Any]]:
    return lambda: {name: names[name]} if name in names else {}


def _global_writer(names: dict[str, Any], name: str) -> Callable[[Any], None]:
    def put(content: dict[str, Any]) -> None:
        if name in content:
            names[name] = content[name]
        else:
            names.pop(name, None)

    return put
