"""What one run of a step used of Python: where it read, what it found there, and what it changed.

A place says how an object is reached from the step's own models and functions, so that what a
capture used can be found again in a step that is like it (jobs/forms/alike.py). Guards and effects
name their holders by objects and by places; Uses.unbound() drops the objects.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_VALUES = (range, torch.device)
ENVIRONMENT: Any = os.environ._data  # type: ignore[attr-defined]
_OF_PROCESS: dict[str, Any] = {"environment": ENVIRONMENT, "modules": sys.modules}
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "not there"})()


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """`parent` is None for a root, whose number is `key`, or for what the process has one of: its
    environment variables, its Python modules. `words` name the object for a message: "self.beta";
    "" for what needs no name."""

    parent: Place | None
    kind: str
    key: Any
    words: str

    def then(self, kind: str, key: Any = None, words: str | None = None) -> Place:
        """A place that one look leads to from here."""
        return Place(self, kind, key, self.words if words is None else words)

    def attribute(self, name: str) -> Place:
        """The dictionary's entry that is an attribute of the object before it."""
        return self.then("entry", name, f"{self.words}.{name}" if self.words else name)

    def _root(self, roots: list[Any]) -> Any:
        return _OF_PROCESS[self.kind] if self.kind in _OF_PROCESS else roots[self.key]

    def find(self, roots: list[Any], found: dict[Place, Any]) -> Any:
        """The object. Raises what looking for it raises, where it is not there."""
        if self not in found:
            if self.parent is None:
                found[self] = self._root(roots)
            else:
                found[self] = _LOOK[self.kind](self.parent.find(roots, found), self.key)
        return found[self]


def entry_of(holder: Any, key: Any) -> Any:
    """holder[key], without a subclass's own way."""
    return dict.__getitem__(holder, key) if isinstance(holder, dict) else holder[key]


def in_class(kind: type, name: str) -> tuple[type, Any] | None:
    """Which class of an object has an attribute, and what is there."""
    for owner in kind.__mro__:
        entries = type.__getattribute__(owner, "__dict__")
        if name in entries:
            return owner, entries[name]
    return None


def attributes_of(of: Any) -> Any:
    """The object's own dictionary; None when it has none."""
    try:
        if isinstance(of, type):
            return type.__getattribute__(of, "__dict__")
        return object.__getattribute__(of, "__dict__")
    except (AttributeError, TypeError):
        return None


_LOOK: dict[str, Callable[[Any, Any], Any]] = {
    "vars": lambda above, _: attributes_of(above),
    "entry": entry_of,
    "own": lambda above, key: object.__getattribute__(above, key),
    "class": lambda above, key: type(above).__mro__[key],
    "base": lambda above, key: above.__mro__[key],
    "cell": lambda above, key: above.__closure__[key],
    "content": lambda above, _: above.cell_contents,
    "call": lambda above, _: above(),
    "get": lambda above, _: above.get(),
}


class Known:
    """A known object. `entries` is its dictionary, `before` a copy from when it became known,
    `seen` the attributes that were read or written, `written` those that were written first,
    `lines` where they were written, `by_torch` those that torch itself wrote. `run`: the dictionary
    that the run changes in the place of `entries`, of an optimizer."""

    __slots__ = (
        "of",
        "place",
        "entries",
        "before",
        "seen",
        "written",
        "lines",
        "by_torch",
        "is_own",
        "run",
    )

    def __init__(self, of: Any, place: Place, entries: Any, is_own: bool) -> None:
        self.of, self.place, self.entries, self.is_own = of, place, entries, is_own
        self.before = content_of(entries) if type(entries) is dict else {}
        self.seen: set[str] = set()
        self.written: set[str] = set()
        self.lines: dict[str, str | None] = {}
        self.by_torch: set[str] = set()
        self.run: dict[str, Any] | None = None


@dataclasses.dataclass(eq=False)
class Guard:
    """What must be as it was. `kind` "entry": holder[key] is `value`, or has no such key (MISSING).
    "cell": the cell `holder` holds `value`. "class": `holder` is of the class `value`. "own": its
    attribute `key` is `value`. "content": the container `holder` has the parts `value`. "look":
    `key(holder)` gives an object of equal value, or the same one."""

    kind: str
    place: Place
    holder: Any
    key: Any
    value: Any
    words: str

    def now(self) -> Any:
        """What there is at present."""
        if self.kind == "entry":
            is_there = dict.__contains__ if isinstance(self.holder, dict) else _has
            return entry_of(self.holder, self.key) if is_there(self.holder, self.key) else MISSING
        if self.kind == "cell":
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        if self.kind == "class":
            return type(self.holder)
        if self.kind == "own":
            return getattr(self.holder, self.key)
        return parts_of(self.holder) if self.kind == "content" else self.key(self.holder)

    def holds(self, now: Any) -> bool:
        """Whether no computation can tell that from what there was."""
        if self.kind == "content":
            return len(now) == len(self.value) and all(map(is_same, now, self.value))
        return is_same(now, self.value)


@dataclasses.dataclass(eq=False)
class Effect:
    """A change that the step makes: after it, holder[key] is `after` ("entry"), its attribute is
    ("slot", "own"), the cell `holder` holds `after` ("cell"), the container `holder` has the
    content `after` ("content"), or `key(holder)` gives `after` ("look"). `was_read`: the step may
    depend on what was there before."""

    kind: str
    place: Place
    holder: Any
    key: Any
    before: Any
    after: Any
    words: str
    was_read: bool
    in_module: bool = False  # an attribute of a module, or of one of the job's tensors
    of_argument: bool = False  # an attribute of an argument
    by_torch: bool = False  # torch itself made it
    is_shared: bool = False  # `after` is an object that each run of the graph puts there
    source: str | None = None  # the user's line that changed it, where that was seen

    def put(self, value: Any) -> None:
        """Makes `value` what is there."""
        if self.kind == "entry":
            _put_entry(self.holder, self.key, value)
        elif self.kind == "own":
            setattr(self.holder, self.key, value)
        elif self.kind == "look":
            self.key.put(self.holder, value)
        elif self.kind == "slot":
            delattr(self.holder, self.key) if value is MISSING else setattr(
                self.holder, self.key, value
            )
        elif self.kind == "cell":
            if value is not MISSING:
                self.holder.cell_contents = value
            elif not is_same(_cell(self.holder), MISSING):
                del self.holder.cell_contents
        else:
            refill(self.holder, value)

    def do(self) -> None:
        """Makes the change."""
        is_shared = self.is_shared or self.kind == "content"
        self.put(self.after if is_shared else copied(self.after))


@dataclasses.dataclass(eq=False)
class OuterTensor:
    """A tensor from outside of the step, which has the slot of this number. `is_part`: the slot has
    a copy of what the tensor shows of a larger memory. `is_pinned`: the step decided by its values,
    so other values are another graph. `is_written`: the step writes it."""

    tensor: Any
    slot: int
    is_part: bool
    is_pinned: bool
    is_written: bool


@dataclasses.dataclass(eq=False)
class Uses:
    """`alone` says why another step's uses cannot be found by these; None when they can, which
    `asked` excludes."""

    guards: list[Guard]
    effects: list[Effect]
    alone: str | None = None
    tensors: list[OuterTensor] = dataclasses.field(default_factory=list)
    # Attributes of tensor arguments: which of the arguments, the name, the value.
    asked: list[tuple[int, str, Any]] = dataclasses.field(default_factory=list)

    def unbound(self) -> Uses:
        """The same without objects that were held."""

        def without(use: Any) -> Any:
            return dataclasses.replace(use, holder=None, **_blank(use))

        tensors = [
            dataclasses.replace(outer, tensor=self._places_of(outer.tensor))
            for outer in self.tensors
        ]
        guards, effects = map(without, self.guards), map(without, self.effects)
        return Uses([*guards], [*effects], self.alone, tensors)

    def _places_of(self, tensor: Any) -> list[int]:
        return [number for number, guard in enumerate(self.guards) if guard.value is tensor]

    def bound(self, roots: list[Any]) -> Uses:
        """Those of a step that is like the one that they are from, as it is now."""
        found: dict[Place, Any] = {}
        guards = [dataclasses.replace(g, holder=g.place.find(roots, found)) for g in self.guards]
        for guard in guards:
            guard.value = guard.now()
        effects = [dataclasses.replace(e, holder=e.place.find(roots, found)) for e in self.effects]
        tensors = [
            dataclasses.replace(outer, tensor=guards[outer.tensor[0]].value)
            for outer in self.tensors
            if outer.tensor
        ]
        return Uses(guards, effects, None, tensors)


def _blank(use: Any) -> dict[str, Any]:
    return {"value": None} if isinstance(use, Guard) else {"before": None}


def _has(holder: Any, key: Any) -> bool:
    if isinstance(holder, types.MappingProxyType):
        return key in holder
    return -len(holder) <= key < len(holder)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _put_entry(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, type):
        type.__delattr__(holder, key) if value is MISSING else type.__setattr__(holder, key, value)
    elif value is MISSING:
        _kind(holder).pop(holder, key, None)
    else:
        _kind(holder).__setitem__(holder, key, value)


def _kind(mapping: dict[Any, Any]) -> type[dict[Any, Any]]:
    """Whose methods change a mapping, without a subclass's own way. An OrderedDict that is changed
    by those of dict forgets its order."""
    is_ordered = isinstance(mapping, collections.OrderedDict)
    return collections.OrderedDict if is_ordered else dict


def parts_of(container: Any) -> list[Any]:
    """A copy of a container's parts: of a mapping its keys and values in turn."""
    if isinstance(container, (dict, types.MappingProxyType)):
        is_dict = isinstance(container, dict)
        items = _kind(container).items(container) if is_dict else container.items()
        return [part for item in items for part in item]
    if isinstance(container, (set, frozenset)):
        return [frozenset(container)]
    return list(container)


def content_of(container: Any) -> Any:
    """A copy of a container's content."""
    if isinstance(container, dict):
        return dict(_kind(container).items(container))
    return set(container) if isinstance(container, set) else list(container)


def refill(container: Any, content: Any) -> None:
    """Gives a container the content that content_of() gave."""
    if isinstance(container, dict):
        _kind(container).clear(container)
        _kind(container).update(container, content)  # a Counter's own update() adds
    else:
        container.clear()
        add = container.update if isinstance(container, set) else container.extend
        add(content)


def is_plain(value: Any, depth: int = 4) -> bool:
    """A number, a string, or containers of such."""
    if type(value) in PLAIN:
        return True
    if depth == 0:
        return False
    if type(value) in (dict, collections.OrderedDict, collections.Counter):
        return all(is_plain(p, depth - 1) for item in value.items() for p in item)
    is_many = type(value) in (list, tuple, set, frozenset, collections.deque)
    return is_many and all(is_plain(part, depth - 1) for part in value)


def copied(value: Any) -> Any:
    """A plain value that shares no container with `value`."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, dict):
        return type(value)({key: copied(part) for key, part in value.items()})
    if type(value) is collections.deque:
        return collections.deque(map(copied, value), value.maxlen)
    return type(value)(map(copied, value))


def is_same(a: Any, b: Any) -> bool:
    """Whether two objects are one, or equal plain values; runs no `==` of anything else."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if kind is complex:
        return struct.pack("dd", a.real, a.imag) == struct.pack("dd", b.real, b.imag)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if kind is frozenset:
        return a == b and all(type(part) in PLAIN for part in a ^ b)
    if kind is types.MethodType:
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return kind in (*PLAIN, *_VALUES) and a == b


def has_fakes(value: Any) -> bool:
    """Whether the value has a tensor of the capture: it stands for one of the job's."""
    if isinstance(value, FakeTensor):
        return True
    if type(value) in (list, tuple):
        return any(isinstance(part, FakeTensor) for part in value)
    return type(value) is dict and any(isinstance(p, FakeTensor) for p in value.values())


def short(value: Any) -> str:
    """An object, for a message."""
    if value is MISSING:
        return "not there"
    text = repr(value) if is_plain(value) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
