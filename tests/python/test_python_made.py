"""Shows that a step uses the present values of what its objects read while they are made, shown or
called by Python itself: constructors, single instances, default factories, texts, operators. Each
kind is a class of the user's; every bit is compared with eager execution."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import check_equal, trained

CONFIG = types.SimpleNamespace(factor=1.0)


class Made:
    def __init__(self) -> None:
        self.factor = CONFIG.factor


class MadeBelow(Made):
    def __init__(self) -> None:
        super().__init__()


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = CONFIG.factor


class Single:
    one = None

    def __new__(cls):
        if cls.one is None:
            cls.one = super().__new__(cls)
            cls.one.factor = 1.0
        return cls.one


class Metaclass(type):
    made: ClassVar[dict] = {}

    def __call__(cls, *given):
        if cls not in Metaclass.made:
            Metaclass.made[cls] = super().__call__(*given)
        return Metaclass.made[cls]


class SingleByMetaclass(metaclass=Metaclass):
    def __init__(self) -> None:
        self.factor = 1.0


class Borg:
    shared: ClassVar[dict] = {"factor": 1.0}

    def __init__(self) -> None:
        self.__dict__ = Borg.shared


def present_factor() -> float:
    return CONFIG.factor


@dataclasses.dataclass
class OfAFactory:
    factor: float = dataclasses.field(default_factory=present_factor)


@dataclasses.dataclass
class AfterInit:
    factor: float = 1.0

    def __post_init__(self) -> None:
        self.factor = CONFIG.factor


class Text:
    def __repr__(self) -> str:
        return f"{CONFIG.factor}"


class Readable:
    def __str__(self) -> str:
        return f"{CONFIG.factor}"


class Above:
    def __init_subclass__(cls) -> None:
        cls.factor = CONFIG.factor


def a_class_that_is_made() -> float:
    class Below(Above):
        pass

    return Below.factor


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = CONFIG.factor

    def forward(self, x):
        return x * self.factor


class PartOf:
    def times(self, given):
        return CONFIG.factor * given

    twice = functools.partialmethod(times, 2.0)


class Kinds:
    @functools.singledispatchmethod
    def read(self, given):
        return CONFIG.factor


class Added:
    def __add__(self, other):
        return CONFIG.factor + other


SHOWN, READABLE = Text(), Readable()
READ = {
    "an attribute that a constructor sets": lambda: Made().factor,
    "that of a class above": lambda: MadeBelow().factor,
    "a slot": lambda: Slotted().factor,
    "a single instance": lambda: Single().factor,
    "a single instance by a metaclass": lambda: SingleByMetaclass().factor,
    "attributes that all instances share": lambda: Borg().factor,
    "the factory of a default": lambda: OfAFactory().factor,
    "a dataclass, after its fields": lambda: AfterInit().factor,
    "repr()": lambda: float(repr(SHOWN)),
    "text in a template": lambda: float(f"{SHOWN}"),
    "str()": lambda: float(str(READABLE)),
    "a class of a class": a_class_that_is_made,
    "a module": lambda: Layer()(torch.ones(())),
    "a method with arguments": lambda: PartOf().twice(),
    "a method by the kind of its argument": lambda: Kinds().read(1),
    "an operator": lambda: Added() + 1.0,
}
PUT = {
    "a single instance": lambda value: setattr(Single(), "factor", value),
    "a single instance by a metaclass": lambda value: setattr(SingleByMetaclass(), "factor", value),
    "attributes that all instances share": lambda value: Borg.shared.update(factor=value),
}


@pytest.mark.parametrize("kind", READ)
def test_another_value_is_used_by_the_next_call(kind, service) -> None:
    read = READ[kind]
    put = PUT.get(kind, lambda value: setattr(CONFIG, "factor", value))
    values = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0)

    def job(lane):
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
            count=len(values),
        )

    assert check_equal(job, service).graphs() == 2


def test_a_class_that_is_only_asked_for(service) -> None:
    """What makes its objects reads a number that changes; the step makes none, and what it reads is
    compared all the same: bits are eager's."""

    def job(lane):
        made = Made()
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * (1.0 + isinstance(made, Made)),
            between=lambda number: setattr(CONFIG, "factor", float(number // 3)),
        )

    check_equal(job, service)
