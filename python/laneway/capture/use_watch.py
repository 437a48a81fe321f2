"""Watches what a step uses of Python while it runs on fakes.

Whatever the step reads outside of itself is a constant of the graph, so each read becomes a guard.
Known objects are the step's models and functions, and what reads from known objects give: an object
that the step makes is not known, and free to be read and written. Reads of attributes are seen as
they happen (use_patches.py); variables by the code of the functions that are reached, attributes of
what cannot be watched by that and by calls of getattr (use_names.py); containers are read whole.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from laneway.capture import code_names, lookups, use_optimizers
from laneway.capture.byte_code import refuse_unknown_python
from laneway.capture.chance import Chance
from laneway.capture.code_names import Named, named_in
from laneway.capture.fake_keys import FakeKeys
from laneway.capture.outside import Noting, Outside
from laneway.capture.tensor_attributes import TensorAttributes
from laneway.capture.use_hooks import Hooks
from laneway.capture.use_names import Names, is_of_library, is_plain_code
from laneway.capture.use_patches import Patched, looks_up_itself
from laneway.capture.use_reach import Reach
from laneway.capture.user_lines import is_internal, line_at
from laneway.capture.uses import (
    MISSING,
    Guard,
    Known,
    Place,
    attributes_of,
    content_of,
    entry_of,
    has_fakes,
    in_class,
    parts_of,
)

# Attributes that torch gives every module.
OF_EVERY_MODULE = frozenset(torch.nn.Module().__dict__)
_HOLDERS = ("_parameters", "_buffers", "_modules")
_BUILTINS = frozenset(dir(builtins))
_WHOLE = frozenset({"__dict__", "__reduce_ex__", "__getstate__", "__deepcopy__", "__copy__"})
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars", "expanduser"})


class Watch:
    """One per run of a step, used by its thread. `telling` is the context of the run."""

    def __init__(
        self,
        modules: Iterable[torch.nn.Module],
        functions: Iterable[Any],
        recorder: Noting | None,
        optimizers: use_optimizers.Pairs = (),
        fakes: dict[int, torch.Tensor] | None = None,
        tensors: TensorAttributes | None = None,
    ) -> None:
        refuse_unknown_python()
        self.guards: dict[tuple[int, Any], Guard] = {}
        self.objects: dict[int, Known] = {}
        self._by_entries: dict[int, Known] = {}
        self.containers: dict[int, tuple[Any, Place, Any]] = {}  # with their content before
        # What code may set: the kind, the holder's place, the holder, the key, before, words.
        self.variables: dict[Any, tuple[str, Place, Any, Any, Any, str]] = {}
        self.classes: dict[type, tuple[Place, dict[str, Any]]] = {}  # with their entries before
        self.alone: str | None = None
        self._held: list[Any] = []  # keeps ids taken
        self.names = Names(self)
        self._patched = Patched(self)
        self.chance = Chance()
        self.outside = Outside(recorder, self)
        self.reach = Reach(self)
        self.hooks = Hooks(self.reach)
        self.fakes = fakes or {}  # of the job's tensors, by the tensor's id
        self._keys = FakeKeys(self.fakes)
        self.tensors = tensors or TensorAttributes()
        self.optimizers = optimizers
        roots = list(modules)
        self._module_count = len(roots)
        self._roots = [*roots, *functions]

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Inside, what this thread reads and writes is noted."""
        tells = (
            self._patched.telling(),
            lookups.told_of_lookups(self.names),
            self.tensors.told_to(self),
        )
        with tells[0], tells[1], tells[2], self.chance.refused(), self.outside.seen():
            for number, root in enumerate(self._roots):
                if number < self._module_count:
                    self._own_module(root, Place(None, "root", number, type(root).__name__))
                else:
                    self.reach.value(root, Place(None, "root", number, ""))
            if self.hooks.of_optimizers([o for o, _ in self.optimizers], len(self._roots)):
                self.alone = "an optimizer has hooks"
            if use_optimizers.know(self, self.optimizers, len(self._roots)):
                self.alone = "an optimizer is of a class that is not torch's"
            try:
                yield
                self.reach.imported()
                use_optimizers.read_by_name(self, self.optimizers)
            finally:
                self._keys.remove()

    def end(self) -> None:
        """Lets go of all that was seen, but for the guards."""
        seen = self.objects, self._by_entries, self.containers, self.classes, self.variables
        for each in (*seen, self._held):
            each.clear()
        for part in (self.names, self.tensors, self.reach):
            part.end()

    # What happens in the step.

    def read(self, of: Any, name: str) -> None:
        known = self.objects.get(id(of))
        if known is None or name in known.seen:
            return
        if known.run is not None and use_optimizers.is_torchs_own(name, 2):
            return
        if name in _WHOLE:
            self._read_whole(known, name)
            return
        known.seen.add(name)
        is_module = isinstance(known.of, torch.nn.Module)
        if name.startswith("__") or (is_module and known.is_own and name in OF_EVERY_MODULE):
            return
        entries = known.entries
        found = in_class(type(of), name)
        if found is not None and (hasattr(type(found[1]), "__set__") or entries is None):
            self._read_class(known, name, found)
        elif entries is not None and name in entries:
            self.entry(known.place.then("vars"), entries, name)
        elif is_module and (part := self._part(known, name)) is not None:
            self.reach.value(*part)
        else:
            self.names.is_computed(name)  # by a __getattr__, if there is one
            # What torch gives every module is replaced on none.
            if entries is not None and not (found and found[0] is torch.nn.Module):
                self.guard("entry", known.place.then("vars"), entries, name, MISSING)
            if found is not None:
                self._read_class(known, name, found)
            else:
                self.names.absent_in_classes(known.of, known.place, name)
                if looks_up_itself(type(known.of)):  # by another name, perhaps
                    self.take_whole(known.of)

    def written(self, of: Any, name: str) -> None:
        known = self.objects.get(id(of))
        if known is None:
            return
        known.lines[name] = line_at(sys._getframe(2))
        writes = lookups.asking(sys._getframe(2))
        if writes is not None and is_internal(writes.f_code):
            known.by_torch.add(name)
        self.names.about_to_set_slot(of, known.place, name)
        if name not in known.seen:
            known.seen.add(name)
            known.written.add(name)

    def _read_whole(self, known: Known, name: str) -> None:
        """Whoever copies an object reads all of it."""
        frame = lookups.asking(sys._getframe(3)) or sys._getframe(3)
        by_library = code_names.is_library(frame.f_code)
        if name != "__dict__" or not by_library or code_names.reads_for_others(frame.f_code):
            self.take_whole(known.of)

    def _read_class(self, known: Known, name: str, found: tuple[type, Any]) -> None:
        owner, value = found
        if not isinstance(value, types.FunctionType) and hasattr(type(value), "__get__"):
            self.names.is_computed(name)
        self.names.absent_in_classes(known.of, known.place, name, owner)
        if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            if isinstance(value, types.MemberDescriptorType):
                self._slot(known, name, value)
            return
        if owner is torch.nn.Module:
            return
        position = type(known.of).__mro__.index(owner)
        place = known.place.then("class", position, owner.__name__)
        if not is_plain_code(value) or not is_of_library(owner.__module__):
            self.guard("entry", place.then("vars"), self.names.entries_of(owner), name, value)
        words = known.place.attribute(name).words if not is_plain_code(value) else owner.__name__
        self.reach.value(value, place.then("vars").then("entry", name, words))

    def _slot(self, known: Known, name: str, slot: Any) -> None:
        def look(of: Any) -> Any:
            try:
                return slot.__get__(of)
            except AttributeError:
                return MISSING

        value = look(known.of)
        place = known.place.then("own", name, known.place.attribute(name).words)
        self.guard("look", known.place, known.of, look, value, place.words, name)
        self.names.about_to_set_slot(known.of, known.place, name)
        self.reach.value(value, place)

    def _part(self, known: Known, name: str) -> tuple[Any, Place] | None:
        """A parameter, buffer or child of a module. Of the step's own models ModuleForm sees that
        they stay."""
        for holder in _HOLDERS:
            parts = known.entries.get(holder)
            if parts is not None and dict.__contains__(parts, name):
                place = known.place.then("vars").then("entry", holder)
                part = dict.__getitem__(parts, name)
                if not known.is_own:
                    self.guard("entry", place, parts, name, part, known.place.attribute(name).words)
                return part, place.attribute(name)
        return None

    # What is known.

    def _own_module(self, root: torch.nn.Module, place: Place) -> None:
        """The modules of the step's models: their tensors are the job's."""
        waiting = [(root, place)]
        while waiting:
            module, at = waiting.pop()
            if id(module) in self.objects:
                continue
            self.know(module, at, is_own=True)
            self.hooks.of_module(module, at)
            children = at.then("vars").then("entry", "_modules")
            for name, child in dict.items(attributes_of(module)["_modules"]):
                if child is not None:
                    waiting.append((child, children.attribute(name)))

    def know(self, of: Any, place: Place, is_own: bool = False) -> None:
        """Notes reads and writes of this object's attributes from here on."""
        if id(of) in self.objects:
            return
        self._held.append(of)
        entries = of.__dict__ if isinstance(of, threading.local) else attributes_of(of)
        known = Known(of, place, entries if type(entries) is dict else None, is_own)
        self.objects[id(of)] = self._by_entries[id(entries)] = known
        kind = type(of)
        is_weak = place.kind == "call"  # the guard of the weak reference has the class
        if not isinstance(of, (torch.nn.Module, types.FunctionType)) and not is_weak:
            self.guard("class", place, of, "__class__", kind)
        if isinstance(of, torch.nn.Module):
            pass
        elif not self._patched.watches(kind):
            self.names.add(entries, place.then("vars"), place.words, of)
        elif (base := looks_up_itself(kind)) and not is_of_library(base.__module__):
            self.take_whole(of)
        self.reach.of_class(kind, place)

    def function(self, function: types.FunctionType, place: Place) -> None:
        """The function may run in the step."""
        code = function.__code__
        if code.co_name in _ENVIRONMENT and code_names.is_library(code):
            self.reach.environment()
        if code_names.is_library(code) and not is_internal(code):
            registry = function.__dict__.get("registry")  # of a singledispatch
            self.reach.value(registry, place.then("vars").then("entry", "registry"))
            return
        named = named_in(code)
        cells = list(enumerate(zip(code.co_freevars, function.__closure__ or ())))
        if is_internal(code):  # the package's own, around the user's
            for number, (name, cell) in cells:
                self._inside(cell, place.then("cell", number, name))
            self.reach.settings(named, function, place)
            return
        self.know(function, place)  # first: it may be among its own variables
        for number, (name, cell) in cells:
            self._variable(cell, place.then("cell", number, name), name in named.stored)
        self._globals(function, place, named)
        self.reach.settings(named, function, place)
        self.reach.imports(named, function.__globals__)
        if not _ENVIRONMENT.isdisjoint(name for _, name in named.attributes):
            self.reach.environment()
        if code_names.is_installed(code):
            self.names.note(named.attributes - {("", code_names.WHOLE)})
        else:
            self.names.note(named.attributes, named.put, named.goes_on)
            self.outside.names(named.attributes)
            if named.finds_modules:
                self.reach.every_module()
        if not code_names.is_installed(code):
            self.guard("own", place, function, "__code__", code, f"the code of {place.words}")
        words = f"a default argument of {function.__name__}"
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is not None and not code_names.is_installed(code):
                self.guard("own", place, function, name, value, words)
            self.reach.value(value, place.then("own", name, words))
        wrapped = function.__dict__.get("__wrapped__")
        self.reach.value(wrapped, place.then("vars").then("entry", "__wrapped__"))

    def _inside(self, cell: types.CellType, place: Place) -> None:
        if not code_names.is_empty(cell):
            self.reach.value(cell.cell_contents, place.then("content"))

    def _variable(self, cell: types.CellType, place: Place, is_stored: bool) -> None:
        if (id(cell), None) in self.guards:
            return
        value = MISSING if code_names.is_empty(cell) else cell.cell_contents
        self.guard("cell", place, cell, None, value)
        if is_stored:
            self.may_change(place, cell, None, value, "cell", f"the variable {place.words!r}")
        self.reach.value(value, place.then("content"))

    def _globals(self, function: types.FunctionType, place: Place, named: Named) -> None:
        scope, at = function.__globals__, place.then("own", "__globals__", "")
        installed = code_names.is_installed(function.__code__)
        for name in named.globals:
            value, stored = scope.get(name, MISSING), name in named.stored
            if stored:
                self.may_change(at, scope, name, value)
            if stored and name not in named.read:
                continue
            if value is MISSING:
                if stored or name not in _BUILTINS:
                    self.guard("entry", at, scope, name, MISSING, name)
                continue
            if installed and is_plain_code(value):
                continue
            if not isinstance(value, types.ModuleType):
                self.guard("entry", at, scope, name, value, name)
            self.reach.value(value, at.attribute(name))

    def may_change(
        self, place: Place, of: Any, key: Any, value: Any, kind: str = "entry", words: str = ""
    ) -> None:
        """The step may set of[key], which is `value` before."""
        words = words or f"the variable {place.attribute(key).words!r}"
        self.variables.setdefault((id(of), key), (kind, place, of, key, value, words))

    def note_seen(self, entries: Any, name: str) -> bool:
        """An attribute was read; whether the dictionary is one of a known object."""
        known = self._by_entries.get(id(entries))
        if known is not None:
            known.seen.add(name)
        return known is not None

    def note_absent(self, holder: Any, place: Place, name: Any) -> None:
        """holder[name] is read and is not there."""
        self.note_seen(holder, name)
        self.guard("entry", place, holder, name, MISSING)

    def take_whole(self, of: Any) -> None:
        """All attributes of this object, where it is known, are read."""
        known = self.objects.get(id(of))
        if known is not None and known.entries is not None:
            known.seen.add("__dict__")
            if id(known.entries) not in self.containers:
                self.container(known.entries, known.place.then("vars"))

    def entry(self, place: Place, holder: Any, name: Any) -> None:
        """holder[name] is read."""
        value = entry_of(holder, name)
        if has_fakes(value):
            return
        at = place.attribute(name) if isinstance(name, str) else place.then("entry", name)
        self.guard("entry", place, holder, name, value, at.words)
        self.reach.value(value, at)

    def container(self, of: Any, place: Place) -> None:
        """The container is read whole. What cannot change needs no guard of its own."""
        if not isinstance(of, (tuple, frozenset)):
            self._held.append(of)
            self.containers.setdefault(id(of), (of, place, content_of(of)))
            self.guard("content", place, of, None, parts_of(of))
        self.reach.parts(of, place)
        if type(of) is dict:
            self._keys.add(of)

    def look(self, of: Any, place: Place, look: Callable[[Any], Any], words: str) -> Any:
        """look(of) is read: what it gives."""
        value = look(of)
        self.guard("look", place, of, look, value, words)
        return value

    def guard(
        self,
        kind: str,
        place: Place,
        holder: Any,
        key: Any,
        value: Any,
        words: str = "",
        of: Any = None,
    ) -> None:
        """What is read there must be `value`."""
        at = (id(holder), of if of is not None else key)
        if at in self.guards or has_fakes(value):
            return
        words = words or (place.attribute(key).words if isinstance(key, str) else place.words)
        self.guards[at] = Guard(kind, place, holder, key, value, words)
