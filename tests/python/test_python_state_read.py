"""Shows that other values of state of many more kinds are used by the next call: objects that
delegate, containers of the library and of the user's own, memory of C code, classes that change."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import math
import os
import types
import weakref
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from support.both import check_equal, trained

DEPTH = 1


class Held:
    """Something with one attribute."""

    def __init__(self, factor: Any = 1.0) -> None:
        self.factor = factor


def of_attribute(of: Any, name: str = "factor"):
    return lambda: getattr(of, name), lambda value: setattr(of, name, value)


def property_with_setter():
    class Of:
        _factor = 1.0

        @property
        def factor(self):
            return self._factor * 2

        @factor.setter
        def factor(self, value):
            self._factor = value

    return of_attribute(Of())


def cached_property():
    class Of(Held):
        @functools.cached_property
        def twice(self):
            return self.factor * 2

    of = Of()

    def put(value):
        of.factor = value
        of.__dict__.pop("twice", None)

    return lambda: of.twice, put


def delegating():
    class Of:
        def __init__(self) -> None:
            self._inner = Held()

        def __getattr__(self, name):
            return getattr(self._inner, name)

    of = Of()
    return lambda: of.factor, lambda value: setattr(of._inner, "factor", value)


def replaced_dataclass():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Of:
        factor: float = 1.0

    held = [Of()]

    def put(value):
        held[0] = dataclasses.replace(held[0], factor=value)

    return lambda: held[0].factor, put


def weak_values():
    of = Held()
    held = weakref.WeakValueDictionary(a=of)
    return lambda: held["a"].factor, lambda value, of=of: setattr(of, "factor", value)


def weak_keys():
    of = Held()
    held = weakref.WeakKeyDictionary({of: 1.0})
    return lambda: held[of], lambda value: held.__setitem__(of, value)


def defaults_that_are_replaced():
    def read(factor=1.0, *, other=1.0):
        return factor * other

    def put(value):
        read.__defaults__, read.__kwdefaults__ = (value,), {"other": value}

    return read, put


def shadowed_in_a_subclass():
    class Above:
        factor = 1.0

    class Of(Above):
        pass

    of = Of()
    return lambda: of.factor, lambda value: setattr(Of, "factor", value)


def a_class_in_place_of_another():
    class First:
        def factor(self):
            return 1.0

    class Second(First):
        def factor(self):
            return 2.0

    of = First()
    return lambda: of.factor(), lambda value: setattr(of, "__class__", (First, Second)[value > 1])


def what_class_it_is_of():
    class Of(Held):
        pass

    of = Held()
    return (
        lambda: 2.0 if type(of) is Of else 1.0,
        lambda value: setattr(of, "__class__", (Held, Of)[value > 1]),
    )


def of_a_descriptor():
    class Descriptor(Held):
        def __get__(self, of, kind=None):
            return self.factor

    descriptor = Descriptor()

    class Of:
        factor = descriptor

    of = Of()
    return lambda: of.factor, lambda value: setattr(descriptor, "factor", value)


def of_a_metaclass():
    class Meta(type):
        factor = 1.0

        @property
        def scale(cls):
            return cls._scale

    class Of(metaclass=Meta):
        _scale = 1.0

    def put(value):
        Meta.factor = Of._scale = value

    return lambda: Of.factor * Of.scale, put


def a_context_that_is_left():
    held: contextvars.ContextVar[float] = contextvars.ContextVar("held", default=1.0)
    return lambda: held.get(), held.set


def an_environment_variable_that_is_not_there():
    os.environ.pop("LANEWAY_TEST_LATER", None)

    def put(value):
        if value > 1:
            os.environ["LANEWAY_TEST_LATER"] = str(value)
        else:
            os.environ.pop("LANEWAY_TEST_LATER", None)

    return lambda: float(os.getenv("LANEWAY_TEST_LATER", "1.0")), put


def beside_nan():
    held = {"pair": (math.nan, 1.0)}
    return lambda: held["pair"][1], lambda value: held.update(pair=(float("nan"), value))


def recursion():
    def product(n):
        return 1.0 if n == 0 else product(n - 1) * DEPTH

    def put(value):
        global DEPTH
        DEPTH = value

    return lambda: product(3), put


def keywords_of_a_partial():
    read = functools.partial(lambda factor: factor, factor=1.0)
    return read, lambda value: read.keywords.update(factor=value)


def a_decorated_function():
    held = {"factor": 1.0}

    def scaled(function):
        @functools.wraps(function)
        def read():
            return function() * held["factor"]

        return read

    return scaled(lambda: 1.0), lambda value: held.update(factor=value)


def methods_of_a_class_that_are_replaced():
    class Of:
        @staticmethod
        def first():
            return 1.0

        @classmethod
        def second(cls):
            return 1.0

    def put(value):
        Of.first = staticmethod(lambda: value)
        Of.second = classmethod(lambda cls: value)

    return lambda: Of.first() * Of().second(), put


def by_its_own_operators():
    class Of(Held):
        def __iter__(self):
            return iter([self.factor])

        def __len__(self):
            return int(self.factor)

        def __float__(self):
            return self.factor

        def __bool__(self):
            return self.factor > 1

        def __contains__(self, value):
            return value == self.factor

        def __enter__(self):
            return self.factor

        def __exit__(self, *arguments):
            return False

    of = Of()

    def read():
        with of as factor:
            return factor + sum(of) + len(of) + float(of) + bool(of) + (2.0 in of)

    return read, lambda value: setattr(of, "factor", value)


def in_a_generator():
    held = {"factor": 1.0}

    def parts():
        for n in (1, 2):
            yield held["factor"] * n

    return lambda: sum(parts()), lambda value: held.update(factor=value)


def a_dtype():
    of, tensor = Held(torch.float32), torch.tensor(1.1)
    return (
        lambda: tensor.to(of.factor).float(),
        lambda value: setattr(of, "factor", torch.bfloat16 if value > 1 else torch.float32),
    )


def a_distribution():
    of = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    x = torch.ones(3)
    return (
        lambda: of.log_prob(x).sum(),
        lambda value: setattr(of, "loc", torch.full((3,), value)),
    )


def by_a_dispatch():
    @functools.singledispatch
    def read(value):
        return 1.0

    return lambda: read(3), lambda value: read.register(int, lambda given: value)


class Shared:
    factor = 1.0
    inner = types.SimpleNamespace(factor=1.0)


Other, other = Shared, Shared.inner


def by_another_name():
    """Both are reached by their first names before."""

    def put(value):
        Shared.factor = Shared.inner.factor = value

    return lambda: Other.factor * other.factor * Shared.factor * Shared.inner.factor, put


KINDS = [
    property_with_setter,
    cached_property,
    delegating,
    replaced_dataclass,
    weak_values,
    weak_keys,
    defaults_that_are_replaced,
    shadowed_in_a_subclass,
    a_class_in_place_of_another,
    what_class_it_is_of,
    of_a_descriptor,
    of_a_metaclass,
    a_context_that_is_left,
    an_environment_variable_that_is_not_there,
    beside_nan,
    recursion,
    keywords_of_a_partial,
    a_decorated_function,
    methods_of_a_class_that_are_replaced,
    by_its_own_operators,
    in_a_generator,
    a_dtype,
    a_distribution,
    by_a_dispatch,
    by_another_name,
]


@pytest.mark.parametrize("kind", KINDS)
def test_another_value_is_used_by_the_next_call(kind, service):
    def job(lane):
        read, put = kind()
        values = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0)
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
            count=6,
        )

    check_equal(job, service)
