"""Follows what a step's reads give: functions to their variables, containers to their parts, and
objects to their classes. Finds what has a state of its own: generators of random numbers,
iterators, caches.
"""

from __future__ import annotations

import abc
import builtins
import collections
import contextlib
import contextvars
import functools
import importlib.util
import io
import logging
import operator
import os
import queue
import random
import sys
import threading
import types
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture import use_settings
from laneway.capture.code_names import WHOLE, Named, is_users
from laneway.capture.looks import (
    FEW_BYTES,
    MEMORY,
    IsStill,
    Length,
    Memory,
    Objects,
    Values,
    Variable,
    class_of_referent,
    clears_of,
    content_of_file,
    is_array,
    is_numpy_generator,
    registered_with,
    registered_with_itself,
    variables_of,
)
from laneway.capture.lookups import BY_NAME
from laneway.capture.use_names import is_of_library
from laneway.capture.use_optimizers import is_foreign
from laneway.capture.use_settings import LEFT_ALONE
from laneway.capture.uses import ENVIRONMENT, PLAIN, Place, attributes_of
from laneway.capture.watcher import Watcher
from laneway.errors import CaptureError

# More parts of containers than these are not looked at before each call: 10,000 take 0.1 ms.
MOST_PARTS = 10_000
# All larger arrays of a step: they take some 6 ms before each call. More are refused.
MOST_ARRAY_BYTES = 64 << 20

_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, types.MappingProxyType)
# Whose objects hold what users put there.
_OF_LIBRARY = frozenset(
    {
        *("argparse", "types", "collections", "configparser", "weakref", "_weakrefset"),
        *("threading", "multiprocessing", "queue"),
    }
)
_OF_TORCH = (
    *("torch.nn.modules", "torch.optim.lr_scheduler", "torch.optim.swa_utils"),
    *("torch.distributions", "torch.utils.data"),
)
# Not followed by their names: what watches objects (use_patches.py); what makes them, where no code
# names the class; and of a library's classes what makes or shows them.
_NOT_RUN = frozenset({"__del__", "__getattribute__", "__setattr__", "__delattr__"})
_MAKES = frozenset({"__init__", "__new__", "__init_subclass__"})
_SHOWS = frozenset({"__repr__", "__str__"})
_FUNCTION_OF: dict[type, str] = {property: "fget", functools.cached_property: "func"}
_FUNCTION_OF |= {staticmethod: "__func__", classmethod: "__func__"}
_FUNCTION_OF[functools.singledispatchmethod] = "dispatcher"
# In the variables of code that is executed; captures change some of these (lookups.py).
_BUILTINS = vars(builtins)
_CACHED = type(functools.lru_cache(lambda: None))


def is_watchable(kind: type) -> bool:
    """Whether the attributes of such objects are state that a step may depend on."""
    module = kind.__module__ or ""
    top = module.partition(".")[0]
    if module.startswith(_OF_TORCH):
        return True
    if top in LEFT_ALONE or issubclass(kind, (torch.Tensor, type, torch.optim.Optimizer)):
        return False
    return top == "__main__" or top not in sys.stdlib_module_names or top in _OF_LIBRARY


class Reach:
    """One per watch."""

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self._seen: set[int] = set()
        self._of_objects: set[int] = set()  # classes that objects were found to be of
        self._held: list[Any] = []  # keeps those ids taken
        self._parts = self._array_bytes = 0  # of containers; of large arrays
        self._imports: set[str] = set()  # names of Python modules that are not there yet
        self.caches: list[tuple[Any, Place, Any]] = []  # of functools, with their counts before

    def end(self) -> None:
        """Lets go of all that was seen."""
        self._held.clear()

    def value(self, value: Any, place: Place) -> None:
        """A read gave `value`."""
        kind = type(value)
        if kind in PLAIN or issubclass(kind, FakeTensor) or value is _BUILTINS:
            return
        if id(value) in self._seen:
            for each in value.__mro__ if isinstance(value, type) else (value,):
                self._watch.names.also(each, place.words)
            return
        self._seen.add(id(value))
        self._held.append(value)
        if kind in weakref.ProxyTypes:
            self._proxy(value, place)
        elif issubclass(kind, torch.nn.Module):
            self._watch.know(value, place)
        elif kind is types.FunctionType:
            self._watch.function(value, place)
        elif kind is types.MethodType:
            self.value(value.__func__, place.then("own", "__func__"))
            self._object(value.__self__, place.then("own", "__self__"))
        elif kind is types.BuiltinFunctionType:
            if value in BY_NAME:  # by another name
                self._watch.names.note({("", WHOLE)})
            self._watch.outside.comes_upon(value)
            self.value(value.__self__, place.then("own", "__self__"))
        elif kind in _FUNCTION_OF:
            self.value(getattr(value, _FUNCTION_OF[kind]), place.then("own", _FUNCTION_OF[kind]))
        elif issubclass(kind, functools.partial) and value.func in BY_NAME and len(value.args) > 1:
            self._watch.names.note({("", str(value.args[1]))})
            self.value(value.args, place.then("own", "args"))
        elif issubclass(kind, (functools.partial, functools.partialmethod)):
            for name in ("func", "args", "keywords"):
                self.value(getattr(value, name), place.then("own", name))
        elif isinstance(value, type):
            self._class(value, place)
        elif kind is types.ModuleType:
            self._module(value, place)
        else:
            self._other(value, kind, place)

    def parts(self, container: Any, place: Place) -> None:
        """The parts of a container that is read."""
        self._parts += len(container)
        if self._parts > MOST_PARTS:
            raise CaptureError(
                f"the step reads {place.words or 'a container'}, and containers of more than "
                f"{MOST_PARTS:,} entries together, which cannot be compared before each call",
                remedy="take from it outside of the step what the step needs, and give it as an "
                "argument; or keep the numbers in a tensor",
            )
        if isinstance(container, (dict, types.MappingProxyType)):
            for key, part in list(container.items()):
                words = f"{place.words}[{key!r}]" if type(key) in PLAIN else place.words
                self.value(part, place.then("entry", key, words))
        elif isinstance(container, (set, frozenset)):
            for part in list(container):
                if type(part) not in PLAIN:
                    self._watch.alone = f"it reads the set {place.words}"
                self.value(part, place)
        else:
            fields = getattr(type(container), "_fields", ())  # of a named tuple
            for number, part in enumerate(list(container)):
                at = place.then("entry", number, f"{place.words}[{number}]")
                self.value(part, at)
                if number < len(fields):
                    self._watch.names.also(part, fields[number])

    def of_class(self, kind: type, place: Place) -> None:
        """Objects of this class are known: what Python may call of it without a look at the object,
        and the attributes of the class that code names."""
        for position, owner in enumerate(kind.__mro__):
            if not is_watchable(owner) or owner is torch.nn.Module:
                continue
            if id(owner) not in self._seen and id(owner) not in self._of_objects:
                self._of_objects.add(id(owner))
                self._held.append(owner)
                self.entries(owner, place.then("class", position, owner.__name__))

    def _class(self, of: type, place: Place) -> None:
        if isinstance(of, abc.ABCMeta):
            all_of = registered_with_itself if is_of_library(of.__module__) else registered_with
            self._watch.look(of, place, all_of, f"what is registered with {of.__name__}")
        for position, owner in enumerate(type(of).__mro__):  # metaclasses
            if not is_of_library(owner.__module__):
                self._held.append(owner)
                self.entries(owner, place.then("class", position, owner.__name__), True)
                self._watch.names.also(owner, of.__name__)
                self._watch.names.also(owner, place.words)
        for position, owner in enumerate(of.__mro__):
            if position == 0 or id(owner) not in self._seen:
                self._seen.add(id(owner))
                if is_watchable(owner) and owner is not torch.nn.Module:
                    at = place if position == 0 else place.then("base", position, owner.__name__)
                    self.entries(owner, at, True)
            self._watch.names.also(owner, of.__name__)
            self._watch.names.also(owner, place.words)

    def entries(self, owner: type, place: Place, is_named: bool = False) -> None:
        """What may be read of a class: what Python calls by itself, and what code names. Where it
        `is_named` the step may make objects of it."""
        entries = vars(owner)
        if owner.__module__.startswith("torch."):
            return
        self._watch.classes.setdefault(owner, (place, dict(entries)))
        at = place.then("vars", None, owner.__name__)
        self._watch.names.add(entries, at, owner.__name__, owner)
        is_users_own = not is_of_library(owner.__module__)
        if is_users_own:
            words = f"the classes above {owner.__name__}"
            self._watch.guard("own", place, owner, "__mro__", owner.__mro__, words)
        is_not_run = _NOT_RUN if is_users_own else _NOT_RUN | _SHOWS | _MAKES
        is_not_run = is_not_run if is_named else is_not_run | _MAKES
        for name, value in list(entries.items()):
            is_run = name.startswith("__") and name not in is_not_run
            if is_run and isinstance(value, (types.FunctionType, staticmethod, classmethod)):
                if is_users_own:
                    self._watch.entry(at, self._watch.names.entries_of(owner), name)
                self.value(value, at.then("entry", name))

    def _module(self, of: types.ModuleType, place: Place) -> None:
        if is_users(of):
            at = place.then("vars").then("entry", "__getattr__")
            self.value(vars(of).get("__getattr__"), at)
            self._watch.names.add(vars(of), place.then("vars"), place.words, of)

    def every_module(self) -> None:
        """The step finds Python modules by names that it puts together."""
        self._imports |= {name for name, of in sys.modules.items() if _is_there(of)}
        self.imported()

    def settings(self, named: Named, function: types.FunctionType, place: Place) -> None:
        """What the function takes of Python's own, torch's and installed modules."""
        use_settings.note(self._watch, named, function, place)

    def environment(self) -> None:
        """The step may read environment variables."""
        place = Place(None, "environment", None, "the environment variables")
        self._watch.container(ENVIRONMENT, place)

    def imports(self, named: Named, scope: dict[str, Any]) -> None:
        """The Python modules that a function imports when it runs. The first run imports them:
        those that are not there yet are looked for again behind it (imported())."""
        for name, dots in named.imports:
            package = scope.get("__package__") or ""
            with contextlib.suppress(ImportError):  # the step itself says so
                parts = importlib.util.resolve_name("." * dots + name, package).split(".")
                # `import a.b` gives `a`.
                self._imports |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
        self.imported()

    def imported(self) -> None:
        for name in self._imports & set(sys.modules):
            self._imports.discard(name)
            place = Place(None, "modules", None, "").then("entry", name, name)
            self.value(sys.modules[name], place)

    def _object(self, of: Any, place: Place) -> None:
        if not (type(of).__module__ or "").startswith("laneway"):
            self.value(of, place)

    def _proxy(self, proxy: Any, place: Place) -> None:
        of = proxy.__init__.__self__
        if is_watchable(type(of)):
            self._watch.alone = f"it reads {place.words}, a weak proxy"
            self.value(of, place)

    def _other(self, value: Any, kind: type, place: Place) -> None:
        if issubclass(kind, _CONTAINERS):
            if issubclass(kind, collections.defaultdict):
                words = f"the default of {place.words}"
                make = value.default_factory
                self._watch.guard("own", place, value, "default_factory", make, words)
                self.value(make, place.then("own", "default_factory"))
            self._watch.container(value, place)
            if attributes_of(value) is not None and is_watchable(kind):
                self._watch.know(value, place)
        elif issubclass(kind, weakref.ref):
            self._watch.look(value, place, class_of_referent, f"{place.words}()")
            self.value(value(), place.then("call"))
        elif kind is contextvars.ContextVar:
            words = f"the context variable {value.name!r}"
            found = self._watch.look(value, place, Variable(), words)
            self.value(found, place.then("get"))
        elif kind is contextvars.Context:
            self._watch.look(value, place, variables_of, f"the context {place.words}")
            for variable, held in value.items():
                self.value(held, place.then("entry", variable, variable.name))
        elif issubclass(kind, MEMORY):
            self._memory(value, place, f"the {kind.__name__} {place.words}")
        elif issubclass(kind, queue.SimpleQueue):
            self._watch.look(value, place, Length(), f"the {kind.__name__} {place.words}")
        elif issubclass(kind, threading.local):
            self._watch.alone = f"it reads {place.words}, of its thread"
            self._watch.know(value, place)
        elif kind is _CACHED:
            clears_of(value)
            self.caches.append((value, place, value.cache_info()))
            self.value(value.__wrapped__, place.then("vars").then("entry", "__wrapped__"))
        elif isinstance(value, random.Random) or is_numpy_generator(kind):
            self._watch.chance.add_generator(value, place)
        elif issubclass(kind, (logging.Logger, logging.LoggerAdapter)):
            self._logger(value, place)
        elif hasattr(kind, "__next__"):
            if issubclass(kind, (io.StringIO, io.BytesIO)):
                words = f"the {kind.__name__} {place.words}"
                size = 0 if value.closed else len(value.getvalue())
                self._count_bytes(size, words, "read it before the step")
                self._watch.look(value, place, content_of_file, words)
            if is_watchable(kind) and not kind.__module__.startswith("torch."):
                self._watch.know(value, place)
            else:
                self._watch.chance.add_iterator(value, place)
        elif is_array(kind):
            self._array(value, place)
            if not kind.__module__.startswith("numpy"):
                self._watch.know(value, place)
        elif kind in (operator.attrgetter, operator.methodcaller):
            self._getter(value, place)
        elif value is os.environ:
            self.environment()
        elif issubclass(kind, torch.Tensor):
            self._watch.tensors.add_outer(value, place)
        elif is_watchable(kind) or is_foreign(self._watch, value):
            self._watch.know(value, place)

    def _logger(self, of: Any, place: Place) -> None:
        """By what a logger decides whether it is enabled: its level and those above it."""
        while isinstance(of, logging.LoggerAdapter):
            of, place = of.logger, place.then("vars").attribute("logger")
        if not isinstance(of, logging.Logger):
            self.value(of, place)
            return
        all_of = of.manager
        at = place.then("own", "manager", "")
        self._watch.guard("own", at, all_of, "disable", all_of.disable, "logging.disable()")
        while of is not None:
            entries, at = vars(of), place.then("vars")
            for name in ("level", "disabled", "parent"):
                words = f"{name!r} of the logger {of.name}"
                self._watch.guard("entry", at, entries, name, entries[name], words)
            of, place = of.parent, at.then("entry", "parent")

    def _getter(self, getter: Any, place: Place) -> None:
        """C code that looks up attributes by the names that it was made with."""
        made_by, made_of = getter.__reduce__()[:2]
        given = (*getattr(made_by, "args", ()), *made_of)  # a partial, where it has keywords
        texts = [part for part in given if isinstance(part, str)]
        names = {name for text in texts for name in text.split(".")}
        self._watch.names.note({("", name) for name in names})

    def _array(self, array: Any, place: Place) -> None:
        if hasattr(array, "_mask"):  # a masked one
            mask, at = array._mask, place.then("own", "_mask", f"the mask of {place.words}")
            self._watch.guard("own", place, array, "_mask", mask, at.words)
            self.value(mask, at)
        array = array.view(sys.modules["numpy"].ndarray)  # as it lies in memory
        words = f"the array {place.words}"
        if array.dtype.hasobject:
            self._watch.look(array, place, Objects(array), words)
            return
        if array.nbytes <= FEW_BYTES:
            self._watch.look(array, place, Values(), words)
            return
        remedy = "register it as a buffer of the model, torch.from_numpy(array)"
        self._count_bytes(array.nbytes, words, remedy)
        self._watch.look(array, place, IsStill(array), words)

    def _memory(self, of: Any, place: Place, words: str) -> None:
        size = memoryview(of).nbytes
        if size > FEW_BYTES:
            remedy = "register a tensor of its bytes as a buffer of the model, torch.frombuffer()"
            self._count_bytes(size, words, remedy)
        self._watch.look(of, place, Memory(of), words)

    def _count_bytes(self, size: int, words: str, remedy: str) -> None:
        self._array_bytes += size
        if self._array_bytes > MOST_ARRAY_BYTES:
            raise CaptureError(
                f"the step reads {words}, of {size >> 20} MiB: a call compares at most "
                f"{MOST_ARRAY_BYTES >> 20} MiB of arrays with what the step was captured with",
                remedy=f"{remedy}, or give that to the step as an argument",
            )


def _is_there(module: Any) -> bool:
    return type(module) is types.ModuleType and is_users(module)
