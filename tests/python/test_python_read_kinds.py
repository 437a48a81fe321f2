"""Shows that whatever holds a value that a step reads, another value is used by the next call:
slots, properties, enums, closures, weak references, context variables, Python modules that the step
imports and the like. So it is on each Python that captures know."""

from __future__ import annotations

import argparse
import contextvars
import dataclasses
import enum
import functools
import importlib
import operator
import os
import sys
import tempfile
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import batches, check_equal, net, sgd

current: contextvars.ContextVar[float] = contextvars.ContextVar("current", default=1.0)


class Colour(enum.Enum):
    red = 1.0
    blue = 2.0


class Named(enum.StrEnum):
    first = "factor"


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1.0


@dataclasses.dataclass
class Config:
    factor: float = 1.0
    inner: Any = None


class Computed:
    def __init__(self) -> None:
        self.held = {"factor": 1.0}

    @property
    def factor(self):
        return self.held["factor"]


class Asked:
    def __init__(self) -> None:
        self.held = 1.0

    def __getattr__(self, name):
        if name == "factor":
            return self.held
        raise AttributeError(name)


class Shared:
    factor = 1.0


class Odd:
    """Has an equality that no one may ask."""

    __hash__ = None

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        raise AssertionError("was compared")


def closure_of_closures() -> tuple[Callable[[], float], Callable[[float], None]]:
    factor = 1.0

    def put(value):
        nonlocal factor
        factor = value

    def outer():
        return lambda: (lambda: factor)()

    return lambda: outer()(), put


def attribute(of: Any, name: str = "factor") -> tuple[Callable[[], float], Callable[[float], None]]:
    return lambda: getattr(of, name), lambda value: setattr(of, name, value)


def a_property():
    of = Computed()
    return lambda: of.factor, lambda value: of.held.update(factor=value)


def by_getattr():
    of = Asked()
    return lambda: of.factor, lambda value: setattr(of, "held", value)


def an_enum():
    held = {"colour": Colour.red}

    def put(value):
        held["colour"] = Colour.blue if value > 1 else Colour.red

    return lambda: held["colour"].value, put


def a_default_argument():
    def read(factor=[1.0]):  # noqa: B006
        return factor[0]

    return read, lambda value: read.__defaults__[0].__setitem__(0, value)


def a_class_attribute():
    Shared.factor = 1.0
    return lambda: Shared.factor, lambda value: setattr(Shared, "factor", value)


def a_weak_reference():
    of = Computed()
    reference = weakref.ref(of)
    return lambda of_=reference: of_().factor, lambda value: of.held.update(factor=value)


def a_partial():
    of = Config()
    return functools.partial(lambda of: of.factor, of), lambda value: setattr(of, "factor", value)


def a_context_variable():
    current.set(1.0)
    return lambda: current.get(), current.set


def an_environment_variable():
    os.environ["LANEWAY_TEST_FACTOR"] = "1.0"

    def put(value):
        os.environ["LANEWAY_TEST_FACTOR"] = str(value)

    return lambda: float(os.environ["LANEWAY_TEST_FACTOR"]), put


def three_objects_deep():
    of = Config(inner=argparse.Namespace(list=[{"config": Config()}]))
    read = lambda: of.inner.list[0]["config"].factor  # noqa: E731
    return read, lambda value: setattr(of.inner.list[0]["config"], "factor", value)


def a_numpy_array():
    numpy = pytest.importorskip("numpy")
    array = numpy.ones(3)
    return lambda: float(array[1]), lambda value: array.__setitem__(1, value)


def recursive():
    of = Config()
    of.inner = [of, {"again": of}]
    return lambda: of.inner[1]["again"].inner[0].factor, attribute(of)[1]


@functools.cache
def _folder() -> str:
    """On sys.path: for Python modules of the test's own."""
    folder = tempfile.mkdtemp()
    sys.path.insert(0, folder)
    return folder


def by_import(line: str, ahead: bool = True):
    """A function with this line in its body, and the name of a package in it. `ahead`: that has
    been imported before."""
    name = f"read_{len(list(Path(_folder()).glob('read_*')))}"
    Path(_folder(), name).mkdir()
    Path(_folder(), name, "__init__.py").write_text("factor = 1.0\n")
    Path(_folder(), name, "part.py").touch()
    importlib.invalidate_caches()
    if ahead:
        importlib.import_module(name)
    made: dict[str, Any] = {}
    code = f"def read():\n    {line.format(name)}\n    return factor\n"
    exec(compile(code, __file__, "exec"), made)
    return made["read"], lambda value: setattr(importlib.import_module(name), "factor", value)


def by_names_in_a_tuple():
    global settings
    settings = types.ModuleType("settings")
    settings.__file__, settings.factor = __file__, 1.0

    def read():
        factor = 1.0
        for name in ("factor", "other"):
            factor *= getattr(settings, name, 1.0)
        return factor

    return read, lambda value: setattr(settings, "factor", value)


def above_an_object_in_a_closure():
    """The object is a variable of an inner function, so the code names it before the attribute."""

    class Above:
        factor = 1.0

    class Below(Above):
        factor = 7.0

        def both(self):
            return super().factor, lambda: self

    of = Below()
    return lambda: of.both()[0], lambda value: setattr(Above, "factor", value)


def by_keys_of_a_dictionary():
    table = {"factor": 0, "other": 1}
    return of_a_namespace(lambda of: next(getattr(of, name) for name in table))


def of_a_namespace(read: Callable[[Any], float]):
    of = types.SimpleNamespace(factor=1.0)
    return lambda: read(of), lambda value: setattr(of, "factor", value)


def by_a_pattern(of: Any) -> float:
    match of:
        case types.SimpleNamespace(factor=factor):
            return factor
    return 0.0


def by_globals():
    global GIVEN
    GIVEN = 1.0

    def put(value):
        global GIVEN
        GIVEN = value

    return lambda: globals()["GIVEN"], put


def looked_up(of: Any, name: str) -> float:
    return getattr(of, name)


def by_partial_of_getattr():
    of = types.SimpleNamespace(factor=1.0)
    return functools.partial(getattr, of, "factor"), lambda value: setattr(of, "factor", value)


def by_methodcaller():
    methods = {1.0: lambda by: by, 2.0: lambda by: by * 2}
    of, call = types.SimpleNamespace(method=methods[1.0]), operator.methodcaller("method", by=1.0)
    return lambda: call(of), lambda value: setattr(of, "method", methods[value])


READS = {
    "a slot": lambda: attribute(Slotted()),
    "a dataclass": lambda: attribute(Config()),
    "a property": a_property,
    "__getattr__": by_getattr,
    "an enum": an_enum,
    "a closure of closures": closure_of_closures,
    "a default argument": a_default_argument,
    "a class attribute": a_class_attribute,
    "a weak reference": a_weak_reference,
    "a partial": a_partial,
    "a context variable": a_context_variable,
    "an environment variable": an_environment_variable,
    "objects in objects": three_objects_deep,
    "a numpy array": a_numpy_array,
    "objects that hold themselves": recursive,
    "an import in the step": lambda: by_import("import {0}; factor = {0}.factor"),
    "an import of a name": lambda: by_import("from {0} import factor"),
    "an import that the step makes first": lambda: by_import("from {0} import factor", ahead=False),
    "an import of a package's part": lambda: by_import("import {0}.part; factor = {0}.factor"),
    "__import__()": lambda: by_import("factor = __import__('{0}').factor"),
    "sys.modules": lambda: by_import("import sys; factor = sys.modules['{0}'].factor"),
    "keys of a dictionary": by_keys_of_a_dictionary,
    "a name that is an enum": lambda: of_a_namespace(lambda of: getattr(of, Named.first)),
    "a name given to a function": lambda: of_a_namespace(lambda of: looked_up(of, "factor")),
    "a partial of getattr": by_partial_of_getattr,
    "a methodcaller with keywords": by_methodcaller,
    "names in a tuple": by_names_in_a_tuple,
    "super() of an object in a closure": above_an_object_in_a_closure,
    "a pattern": lambda: of_a_namespace(by_a_pattern),
    "vars()": lambda: of_a_namespace(lambda of: vars(of)["factor"]),
    "__dict__": lambda: of_a_namespace(lambda of: of.__dict__["factor"]),
    "attrgetter": lambda: of_a_namespace(lambda of: operator.attrgetter("factor")(of)),
    "globals()": by_globals,
}


def test_objects_whose_equality_raises_or_is_a_tensor(service):
    """Each call has another object, so each is captured."""

    def job(lane):
        model, held = net(), [Odd(1.0), torch.ones(2)]
        model.forward = lambda x: nn.Sequential.forward(model, x) * held[0].factor * held[1].sum()
        predict = lane.inference(model)
        found = []
        for number in range(3):
            held[:] = [Odd(1.0 + number), torch.ones(2) + number]
            found.append(predict(batches(1)[0][0]))
        return found

    check_equal(job, service)


@pytest.mark.parametrize("kind", READS)
def test_what_is_read_by(kind, service):
    """Another value is another graph, an old one is captured no more, and eager's bits come out."""

    def job(lane):
        model, (read, put) = net(), READS[kind]()

        @lane.step(model, sgd(model))
        def train(x, y):
            loss = F.cross_entropy(model(x), y) * read()
            model.zero_grad()
            loss.backward()
            return loss

        losses = []
        for (x, y), value in zip(batches(6), (1.0, 1.0, 2.0, 1.0, 2.0, float("2"))):
            put(value)
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 2


def test_a_registry_of_functions(service):
    """Compared at once, by identity; what takes a function's place may be of any class."""

    def double(x):
        return x * 2

    def shift(x):
        return x + 1

    class Called:
        def __call__(self, x):
            return x - 3

        def __eq__(self, other):
            raise ValueError("not to be compared")

        __hash__ = None

    def job(lane):
        model, registry = net(), {"a": double, "b": shift, "c": None}
        model.forward = lambda x: use(nn.Sequential.forward(model, x), registry)
        predict, x = lane.inference(model), batches(1)[0][0]
        found = [predict(x), predict(x)]
        for key, value in (("a", shift), ("b", Called()), ("d", double), ("b", shift)):
            registry[key] = value
            found += [predict(x), predict(x)]
        registry["a"] = registry.pop("a")  # another order
        return [*found, predict(x)]

    def use(x, registry):
        for function in registry.values():
            x = x if function is None else function(x)
        return x

    assert check_equal(job, service).graphs() == 6
