"""Reads of what tells nobody of them: entries of namespaces, Python modules and classes, and
attributes of tensors.

The code of the functions that are reached says by which names it reads attributes (code_names.py).
Names that code puts together are seen where they are looked up (lookups.py).
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Set
from typing import Any

import torch

from laneway.capture.byte_code import OF_ANYTHING
from laneway.capture.code_names import SHOWN, WHOLE, is_users
from laneway.capture.user_lines import is_internal
from laneway.capture.uses import MISSING, Place, attributes_of, entry_of, in_class
from laneway.capture.watcher import Watcher
from laneway.errors import CaptureError


def is_plain_code(value: Any) -> bool:
    """A function, class or Python module, or what makes one of an attribute."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
    return isinstance(value, (*kinds, staticmethod, classmethod, property))


def is_of_library(module: Any) -> bool:
    """Whether the class with this `__module__` is no class of the user's."""
    found = sys.modules.get(module)
    return found is not None and not is_users(found)


class Names:
    """One per watch."""

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self._pairs: set[tuple[str, str]] = set()
        self._stored: set[str] = set()  # names of attributes that code sets
        self._tried: set[str] = set()  # that code asks for within try
        self._computed = {"__class__"}  # names of attributes that a function gives
        self._held: list[Any] = []  # keeps ids taken
        # Dictionaries by the ids of whose they are, and by what they are called in code.
        self._spaces: dict[int, tuple[Any, Place]] = {}
        self._named: dict[int, dict[str, None]] = {}
        self._of_classes: dict[type, Any] = {}
        self._shown: set[int] = set()  # ids of dictionaries that C code compares and shows

    def add(self, entries: Any, place: Place, name: str, of: Any) -> None:
        """Entries of this dictionary, which is that of `of`, are read where code names them as
        attributes. `place` is the dictionary's."""
        if entries is None or id(of) in self._spaces:
            self.also(of, name)
            return
        self._held.append(of)
        self._spaces[id(of)] = entries, place
        if isinstance(of, torch.Tensor) and not entries:  # one of very many, perhaps
            return
        if isinstance(of, types.SimpleNamespace):
            self._shown.add(id(entries))
        self._named[id(of)] = {}
        self.also(of, name)
        self._may_set(entries, place, self._stored)

    def also(self, of: Any, name: str) -> None:
        """The object is called so, too."""
        called, last = self._named.get(id(of)), name.rpartition(".")[2]
        if called is not None and last not in called:
            called[last] = None
            self._read_named(*self._spaces[id(of)], last, self._pairs)

    def note(
        self,
        attributes: Set[tuple[str, str]],
        stored: Set[str] = frozenset(),
        goes_on: bool = False,
    ) -> None:
        """What may be read of these, as pairs of what an attribute is of ("": of anything) and its
        name; and the names of attributes that may be set. `goes_on`: also where one is missing."""
        if goes_on:
            self._tried |= {name for _, name in attributes}
            self._pairs -= attributes  # to be looked for again
        of_any = {(OF_ANYTHING, name) for of, name in attributes if of in self._computed}
        attributes = attributes | of_any
        new, put = attributes - self._pairs, stored - self._stored
        self._pairs |= new
        self._stored |= put
        for of, called in list(self._named.items()):
            for last in list(called):
                self._read_named(*self._spaces[of], last, new)
            self._may_set(*self._spaces[of], put)

    def is_computed(self, name: str) -> None:
        """Attributes of this name are what a property or the like gives, which is known by other
        names."""
        if name not in self._computed:
            self._computed.add(name)
            self.note({(OF_ANYTHING, key) for of, key in self._pairs if of == name})

    def is_named(self, name: str) -> bool:
        """Whether code reads an attribute of this name, of whatever."""
        return any(name == key for _, key in self._pairs)

    def entries_of(self, owner: type) -> Any:
        """The class's dictionary, the same object each time."""
        return self._of_classes.setdefault(owner, vars(owner))

    def absent_in_classes(self, of: Any, place: Place, name: str, below: type = object) -> None:
        """No class of the user's that is before `below` among those of the object has such an
        attribute."""
        for position, owner in enumerate(type(of).__mro__):
            if owner is below:
                return
            if not is_of_library(owner.__module__):
                at = place.then("class", position, owner.__name__).then("vars")
                self._watch.note_absent(self.entries_of(owner), at, name)

    def about_to_set_slot(self, of: Any, place: Place, name: str) -> None:
        """The step may set this attribute, where it is one of the class's slots."""
        found = in_class(type(of), name)
        if found is None or type(found[1]) is not types.MemberDescriptorType:
            return
        value = MISSING
        with contextlib.suppress(AttributeError):
            value = found[1].__get__(of)
        words = f"the attribute {name!r} of a {type(of).__name__}"
        self._watch.may_change(place, of, name, value, "slot", words)

    # What is looked up now (lookups.Listener).

    def looked_up(self, of: Any, name: str) -> None:
        if id(of) not in self._spaces or not isinstance(name, str) or name.startswith("__"):
            return
        if is_internal(sys._getframe(2).f_code):
            return
        for each in type.__getattribute__(of, "__mro__") if isinstance(of, type) else (of,):
            space = self._spaces.get(id(each))
            if space is None:
                continue
            entries, place = space
            if name in entries:
                self._read(entries, place, name)
                return
            self._watch.note_absent(entries, place, name)

    def about_to_set(self, of: Any, name: str) -> None:
        space = self._spaces.get(id(of))
        if space is not None and isinstance(of, types.ModuleType):
            entries, place = space
            self._watch.may_change(place, entries, name, entries.get(name, MISSING))

    def taken_whole(self, of: Any) -> None:
        self._watch.take_whole(of)
        space = self._spaces.get(id(of))
        if space is not None:
            self._read_all(*space)

    def listed(self, of: Any) -> None:
        space = self._spaces.get(id(of))
        if space is not None:
            self._watch.look(*space, tuple, f"the names in {space[1].words}")

    def evaluated(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        watch, place = self._watch, self._place_of(scope)
        is_of_module = attributes_of(sys.modules.get(scope.get("__name__"))) is scope
        for name in code.co_names if is_of_module else ():  # which it may set, too
            watch.may_change(place, scope, name, scope.get(name, MISSING))
        if not code.co_freevars:
            watch.alone = "it evaluates text"
            watch.function(types.FunctionType(code, scope), Place(None, "root", 0, ""))

    def scope(self, of: dict[str, Any]) -> dict[str, Any]:
        return Scope(of, self._watch, self._place_of(of))

    def _place_of(self, scope: dict[str, Any]) -> Place:
        name = scope.get("__name__")
        if attributes_of(sys.modules.get(name)) is not scope:
            self._watch.alone = "it reads variables of no Python module"
        return Place(None, "modules", None, "").then("entry", name, "").then("vars")

    def end(self) -> None:
        """Lets go of all that was seen."""
        for seen in (self._held, self._named, self._spaces, self._of_classes):
            seen.clear()

    def _read_named(self, entries: Any, place: Place, last: str, pairs: Set[Any]) -> None:
        if (last, WHOLE) in pairs or ("", WHOLE) in pairs:
            self._read_all(entries, place)
            return
        if (last, SHOWN) in pairs and id(entries) in self._shown:
            self._watch.container(entries, place)
            return
        for name in _names(entries):
            if (last, name) in pairs or ("", name) in pairs:
                self._read(entries, place, name)
        if type(entries) is dict:  # of no class
            for of, name in pairs:
                is_meant = of == last or (of == OF_ANYTHING and name in self._tried)
                if is_meant and name not in entries and not name.startswith("__"):
                    self._watch.note_absent(entries, place, name)

    def _read_all(self, entries: Any, place: Place) -> None:
        """Other code changes classes and Python modules, too, so that they are read entry by
        entry."""
        if type(entries) is dict and "__name__" not in entries:
            self._watch.container(entries, place)
            return
        for name in _names(entries):
            self._read(entries, place, name)
        self._watch.look(entries, place, tuple, f"the names in {place.words}")

    def _read(self, entries: Any, place: Place, name: str) -> None:
        value = entry_of(entries, name)
        is_of_class = isinstance(entries, types.MappingProxyType)
        is_function = isinstance(value, types.FunctionType)
        if is_of_class and not is_function and hasattr(type(value), "__get__"):
            self.is_computed(name)
        if is_of_class and is_plain_code(value) and is_of_library(entries.get("__module__")):
            return
        self._watch.entry(place, entries, name)
        if not self._watch.note_seen(entries, name) and type(entries) is dict:
            self._watch.may_change(place, entries, name, value)

    def _may_set(self, entries: Any, place: Place, names: Set[str]) -> None:
        """Of Python modules: other code changes them, too, so that not all changes are the
        step's."""
        if "__name__" not in entries or type(entries) is not dict:
            return
        for name in names:
            self._watch.may_change(place, entries, name, entries.get(name, MISSING))


def _names(entries: Any) -> list[str]:
    return [name for name in entries if isinstance(name, str) and not name.startswith("__")]


class Scope(dict):
    """What globals() gives in a step: the variables, which tell what is read of them."""

    def __init__(self, of: dict[str, Any], watch: Watcher, place: Place) -> None:
        super().__init__(of)
        self.of, self._watch, self._place = of, watch, place

    def _read(self, name: Any) -> None:
        if isinstance(name, str) and name in self.of:
            self._watch.entry(self._place, self.of, name)
        else:
            self._watch.note_absent(self.of, self._place, name)

    def __getitem__(self, name: Any) -> Any:
        self._read(name)
        return super().__getitem__(name)

    def get(self, name: Any, default: Any = None) -> Any:
        self._read(name)
        return super().get(name, default)

    def __contains__(self, name: Any) -> bool:
        self._read(name)
        return super().__contains__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        before = self.of.get(name, MISSING)
        self._watch.may_change(self._place, self.of, name, before)
        self.of[name] = value
        super().__setitem__(name, value)

    def _refused(self, *arguments: Any, **named: Any) -> Any:
        raise CaptureError(
            "the step takes all variables of a Python module at once, by globals()",
            remedy="read them by name: globals()[name]; or keep them in a dictionary or an object",
        )

    __iter__ = keys = values = items = copy = _refused
    __delitem__ = pop = popitem = clear = update = setdefault = _refused
    __or__ = __ror__ = __ior__ = _refused
