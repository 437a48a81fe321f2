"""Shows that changes of Python state of more kinds happen in each call as in eager, or are refused
before anything has changed: members of enums, objects and functions in attributes, arrays, memory
of C code, queues."""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import ctypes
import dataclasses
import enum
import pathlib
import queue
import threading
from typing import Any

import numpy
import pytest
import torch
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net, sgd, trained


class Phase(enum.Enum):
    first = 1
    second = 2


CURRENT = Phase.first


@dataclasses.dataclass
class Info:
    rows: int


class Slotted:
    __slots__ = ("value",)


def in_a_module(value):
    model = net()
    return model, lambda: setattr(model, "value", value()), lambda: vars(model).pop("value", None)


def in_an_object(value):
    class Of:
        value: Any = None

    of = Of()
    return net(), lambda: setattr(of, "value", value()), lambda: vars(of).pop("value", None)


def in_a_slot(value):
    of = Slotted()

    def take():
        found = getattr(of, "value", None)
        of.value = None
        return found

    take()
    return net(), lambda: setattr(of, "value", value()), take


def in_a_variable(value):
    def put():
        global CURRENT
        CURRENT = value()

    def take():
        global CURRENT
        found, CURRENT = CURRENT, None
        return found

    take()
    return net(), put, take


def in_a_class(value):
    class Of:
        value: Any = None

    def take():
        found, Of.value = Of.value, None
        return found

    return net(), lambda: setattr(Of, "value", value()), take


def in_a_dictionary(value):
    held: dict[str, Any] = {}
    return net(), lambda: held.update(value=value()), lambda: held.pop("value", None)


VALUES = {
    "a member of an enum": lambda: Phase.second,
    "a new object": lambda: Info(3),
    "a path": lambda: pathlib.Path("a") / "b",
    "a function": lambda: torch.relu,
    "a class": lambda: Info,
    "a dtype": lambda: torch.bfloat16,
    "members in a list": lambda: [Phase.first, Phase.second],
}
NEW = ("a new object", "a path", "members in a list")


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "where", [in_a_module, in_an_object, in_a_slot, in_a_variable, in_a_class, in_a_dictionary]
)
def test_what_is_put_there_in_each_iteration(where, value, service):
    if where is in_a_dictionary and value in NEW:
        pytest.skip("the step reads the dictionary, which has another object each time: refused")

    def job(lane):
        model, put, take = where(VALUES[value])
        seen = []

        def loss_of(model, x, y):
            put()
            return F.cross_entropy(model(x), y)

        result = trained(lane, loss_of, model, lambda number: seen.append(repr(take())), count=4)
        return result, seen, repr(take())

    check_equal(job, service)


def test_another_function_from_the_second_iteration_on(service):
    def job(lane):
        class Of:
            activation = staticmethod(torch.tanh)

        of = Of()
        of.activation = torch.tanh

        def loss_of(model, x, y):
            loss = F.cross_entropy(of.activation(model(x)), y)
            of.activation = torch.relu
            return loss

        return trained(lane, loss_of, between=lambda number: None)

    assert check_equal(job, service).graphs() == 2


def test_the_handle_of_a_hook_that_the_step_installs(service):
    def job(lane):
        class Of:
            handle: Any = None

        of, model = Of(), net()

        def loss_of(model, x, y):
            if of.handle is None:
                of.handle = model[0].register_forward_hook(lambda module, given, out: out * 2)
            return F.cross_entropy(model(x), y)

        def between(number):
            if number == 3:
                of.handle.remove()
                of.handle = None

        return trained(lane, loss_of, model, between), len(model[0]._forward_hooks)

    check_equal(job, service)


def test_an_object_that_has_what_the_step_computes_is_refused(service):
    def job(lane):
        class Of:
            value: Any = None

        of = Of()

        def loss_of(model, x, y):
            loss = F.cross_entropy(model(x), y)
            of.value = queue.Queue()
            of.value.put(loss.detach())
            return loss

        return trained(lane, loss_of)

    check_refused(job, service, "'value' of .*Of.*it stores what the step computes")


def counting_in(held, add):
    """A step that adds to what is held."""

    def job(lane):
        def loss_of(model, x, y):
            add()
            return F.cross_entropy(model(x), y)

        return trained(lane, loss_of)

    return job


def count_in_array():
    held = array.array("d", [0.0])
    return held, lambda: held.__setitem__(0, held[0] + 1), lambda: list(held)


def count_in_numpy():
    held = numpy.zeros(3)
    return held, lambda: held.__setitem__(0, held[0] + 1), held.tolist


def count_in_a_large_array():
    held = numpy.zeros(10_000)
    return held, lambda: held.__setitem__(0, held[0] + 1), held.tolist


def put_in_an_array_of_objects():
    held = numpy.array([None, 1.0], dtype=object)
    return held, lambda: held.__setitem__(0, Phase.second), held.tolist


def mark_in_bytes():
    held = bytearray(2)
    return held, lambda: held.__setitem__(0, 1), lambda: bytes(held)


def count_in_c():
    held = ctypes.c_double(0.0)
    return held, lambda: setattr(held, "value", held.value + 1), lambda: held.value


def set_a_context_variable():
    held: contextvars.ContextVar[float] = contextvars.ContextVar("held", default=1.0)
    return held, lambda: held.set(2.0), held.get


@pytest.mark.parametrize(
    "kind",
    [
        *(count_in_array, count_in_numpy, count_in_a_large_array, put_in_an_array_of_objects),
        *(mark_in_bytes, count_in_c, set_a_context_variable),
    ],
)
def test_what_is_written_by_c_code_is_refused_and_put_back(kind, service):
    _, add, look = kind()
    model, before = net(), look()

    def loss_of(out, y):
        add()
        return F.cross_entropy(out, y)

    step = laneway.train_step(model, loss_of, sgd(model), service)
    with pytest.raises(laneway.CaptureError, match="it writes to it by C code") as caught:
        step(*batches(1)[0])
    assert "held" in str(caught.value)
    assert look() == before


def count_in_an_object():
    class Of:
        count = 0

    of = Of()
    return of, lambda: setattr(of, "count", of.count + 1), r"'count' of .*it does so again"


def count_in_a_counter():
    held = collections.Counter()
    return held, lambda: held.update(calls=1), "the Counter held.*it does so again"


def put_in_a_queue():
    held = queue.Queue()
    return held, lambda: held.put(3), "it does so again"


@pytest.mark.parametrize("kind", [count_in_an_object, count_in_a_counter, put_in_a_queue])
def test_counters_and_queues_are_refused(kind, service):
    _, add, words = kind()
    check_refused(counting_in(None, add), service, words)


def test_a_flag_that_is_on_within_the_step(service):
    def job(lane):
        class Of:
            is_on = False

        of = Of()

        @contextlib.contextmanager
        def on():
            of.is_on = True
            try:
                yield
            finally:
                of.is_on = False

        def loss_of(model, x, y):
            with on():
                return F.cross_entropy(model(x), y) * (2.0 if of.is_on else 1.0)

        return trained(lane, loss_of), of.is_on

    check_equal(job, service)


def test_an_event_that_the_step_sets(service):
    def job(lane):
        event, seen = threading.Event(), []

        def loss_of(model, x, y):
            event.set()
            return F.cross_entropy(model(x), y)

        def between(number):
            seen.append(event.is_set())
            event.clear()

        return trained(lane, loss_of, between=between), seen

    check_equal(job, service)


def test_a_key_that_a_dictionary_makes_when_it_is_asked(service):
    def job(lane):
        held, seen = collections.defaultdict(lambda: 2.0), []

        def between(number):
            seen.append(dict(held))
            if number == 2:
                held["factor"] = 3.0
            if number == 4:
                held.clear()

        def loss_of(model, x, y):
            return F.cross_entropy(model(x), y) * held["factor"]

        return trained(lane, loss_of, between=between, count=6), seen

    check_equal(job, service)


def test_a_flag_that_two_steps_share(service):
    def job(lane):
        class Of:
            is_ready = False

        of, models, losses = Of(), [net(), net()], []

        def made(model, sets):
            optimizer = sgd(model)

            @lane.step(model, optimizer)
            def train(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y) * (2.0 if of.is_ready else 1.0)
                loss.backward()
                optimizer.step()
                if sets:
                    of.is_ready = True
                return loss

            return train

        steps = made(models[0], True), made(models[1], False)
        for number, (x, y) in enumerate(batches(6)):
            if number == 3:
                of.is_ready = False
            losses += [steps[1](x, y), steps[0](x, y), steps[1](x, y)]
        return losses, models, of.is_ready

    check_equal(job, service)
