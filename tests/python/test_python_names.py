"""Shows that what a step reads is found by whatever name the code has for it: a class or namespace
that a property, a descriptor, `__class__` or a named tuple gives, one of several names for a class
and what is in the classes above it; and the same of weak references, contexts and environment
variables."""

from __future__ import annotations

import argparse
import contextvars
import enum
import os
import types
import typing
import weakref

import pytest
from torch import nn
from torch.nn import functional as F

from support.both import batches, check_equal, check_refused, net, sgd, trained

CONFIG = types.SimpleNamespace(factor=1.0)
MODULE = types.ModuleType("settings_of_the_test")
CURRENT: contextvars.ContextVar[float] = contextvars.ContextVar("CURRENT", default=1.0)


class Above:
    factor = 1.0


class Below(Above):
    def by_own_class(self):
        return self.__class__.factor

    def by_cell(self):
        return __class__.factor

    @staticmethod
    def by_name_of_the_lower():
        return Below.factor


class Gives:
    """By functions, and by another name than what it gives has."""

    def __get__(self, of, kind=None):
        return Above


class Meta(type):
    @property
    def current(cls):
        return CONFIG


class Holder(metaclass=Meta):
    given = Gives()

    def __init__(self) -> None:
        self.kind = Above

    @property
    def config(self):
        return CONFIG

    @property
    def owner(self):
        return Above

    @property
    def module(self):
        return MODULE

    def __getattr__(self, name):
        if name == "asked":
            return CONFIG
        raise AttributeError(name)


class Slotted:
    __slots__ = ("kind",)

    def __init__(self) -> None:
        self.kind = Above


class Pair(typing.NamedTuple):
    config: typing.Any
    kind: typing.Any


class Choice(enum.Enum):
    one = CONFIG


def put_everywhere(value):
    CONFIG.factor = Above.factor = MODULE.factor = value
    os.environ["LANEWAY_TEST_FACTOR"] = str(value)


HOLDER, BELOW, SLOTTED, PAIR = Holder(), Below(), Slotted(), Pair(CONFIG, Above)
getenv = os.getenv
READS = {
    "a namespace that a property gives": lambda: HOLDER.config.factor,
    "a class that a property gives": lambda: HOLDER.owner.factor,
    "a Python module that a property gives": lambda: HOLDER.module.factor,
    "a class that a descriptor gives": lambda: HOLDER.given.factor,
    "the same, of the class": lambda: Holder.given.factor,
    "what a property of a metaclass gives": lambda: Holder.current.factor,
    "what __getattr__ gives": lambda: HOLDER.asked.factor,
    "a class in an attribute": lambda: HOLDER.kind.factor,
    "a class in a slot": lambda: SLOTTED.kind.factor,
    "a namespace in a named tuple": lambda: PAIR.config.factor,
    "a class in a named tuple": lambda: PAIR.kind.factor,
    "a member of an enum": lambda: Choice.one.value.factor,
    "__class__": lambda: BELOW.by_own_class(),
    "the variable __class__": lambda: BELOW.by_cell(),
    "an attribute of a class above": lambda: BELOW.by_name_of_the_lower(),
    "getenv by its own name": lambda: float(getenv("LANEWAY_TEST_FACTOR")),
    "the environment as bytes": lambda: float(os.environb[b"LANEWAY_TEST_FACTOR"]),
    "expandvars": lambda: float(os.path.expandvars("$LANEWAY_TEST_FACTOR")),
}


def scaled(service, read, put):
    """Eager's bits; how many graphs that takes."""
    values = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0)

    def job(lane):
        put(1.0)
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
            count=6,
        )

    return check_equal(job, service).graphs()


@pytest.mark.parametrize("kind", READS)
def test_another_value_is_used_by_the_next_call(kind, service):
    assert scaled(service, READS[kind], put_everywhere) == 2


def test_a_property_of_a_module(service):
    class Scaled(nn.Linear):
        @property
        def config(self):
            return CONFIG

        def forward(self, x):
            return super().forward(x) * self.config.factor

    model = Scaled(8, 4)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def job(lane):
        model.load_state_dict(start)
        return trained(
            lane,
            lambda own, x, y: F.cross_entropy(own(x), y),
            model,
            between=lambda number: put_everywhere(1.0 + number // 2),
        )

    check_equal(job, service)


def test_a_namespace_of_a_program_s_arguments(service):
    of = argparse.Namespace(inner=CONFIG)
    assert scaled(service, lambda: of.inner.factor, put_everywhere) == 2


def asked_for(of):
    try:
        return of.factor
    except AttributeError:
        return 1.0


def test_an_attribute_that_is_there_later(service):
    """Nothing but the code says that it was read."""
    of = types.SimpleNamespace()

    def put(value):
        vars(of).clear() if value == 1.0 else setattr(of, "factor", value)

    assert scaled(service, lambda: asked_for(of), put) == 2


def test_a_global_variable_that_is_there_later(service):
    def read():
        try:
            return LATER
        except NameError:
            return 1.0

    def put(value):
        globals().pop("LATER", None)
        if value > 1.0:
            globals()["LATER"] = value

    assert scaled(service, read, put) == 2


def test_an_attribute_of_an_optimizer_of_torch(service):
    """What the step does not read of it takes no capture."""

    def job(lane):
        model = net()
        optimizer = sgd(model)
        optimizer.factor, optimizer.epochs = 1.0, 0

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * optimizer.factor
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for number, batch in enumerate(batches()):
            optimizer.factor = 1.0 + number // 3
            optimizer.epochs += 1
            losses.append(train(*batch))
        return losses, model

    assert check_equal(job, service).graphs() == 2


def test_an_attribute_of_an_optimizer_that_the_step_sets(service):
    """A flag is set by each call; a counter is refused and is as it was."""

    def job(lane, counts=False):
        model = net()
        optimizer = sgd(model)
        optimizer.taken = 0
        made.append(optimizer)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.taken = optimizer.taken + 1 if counts else 1
            return loss

        found = []
        for number, batch in enumerate(batches()):
            found += [train(*batch), optimizer.taken]
            if number == 2:
                optimizer.taken = 0
        return found, model

    made = []
    check_equal(job, service)
    check_refused(lambda lane: job(lane, counts=True), service, "'taken' of a SGD")
    assert made[-1].taken == 0


def test_a_context_that_is_not_the_present_one(service):
    context = contextvars.copy_context()
    put = lambda value: context.run(CURRENT.set, value)  # noqa: E731
    assert scaled(service, lambda: context.run(CURRENT.get), put) == 2


def test_what_a_weak_reference_leads_to_lives_no_longer(service):
    """A graph that read it does not keep it."""

    class Of:
        factor = 1.0

        def __init__(self) -> None:
            self.shift = 0.5

    def job(lane):
        held = [Of()]
        reference = weakref.ref(held[0])

        def read():
            of = reference()
            return 3.0 if of is None else of.factor + of.shift

        def between(number):
            if number == 2:
                held[0].shift = 0.25
            if number == 4:
                held.clear()

        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=between,
            count=6,
        )

    assert check_equal(job, service).graphs() == 3
