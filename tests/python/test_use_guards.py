"""What a graph's capture read is compared by one generated function, with the outcome that
comparing one by one has: for every kind of container, and where one read is among what another one
took."""

from __future__ import annotations

import collections
import math
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import laneway
from laneway.capture.uses import MISSING, Guard, Place, Uses, parts_of
from laneway.jobs.calls.use_guards import UseGuards
from support.both import batches, net, sgd

PLACE = Place(None, "root", 0, "it")


class Own(dict):
    """A mapping with ways of its own, which tell nothing of its entries."""

    def keys(self) -> Any:
        raise RuntimeError("its own way")

    values = items = __iter__ = keys


def _whole(holder: Any) -> Guard:
    return Guard("content", PLACE, holder, None, parts_of(holder), "it")


def _entry(holder: Any, key: str) -> Guard:
    return Guard("entry", PLACE, holder, key, holder.get(key, MISSING), f"it.{key}")


MAPPINGS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"a": 1000.5, "b": "text"},
    "numbers as keys": lambda: {1: 1000.5, 2: "text"},
    "functions": lambda: {"a": math.sin, "b": math.cos},
    "a subclass": lambda: Own(a=1000.5, b="text"),
    "a subclass of functions": lambda: Own(a=math.sin, b=math.cos),
    "ordered": lambda: collections.OrderedDict(a=1000.5, b="text"),
    "with a default": lambda: collections.defaultdict(int, a=1000.5, b="text"),
}


def _put(mapping: Any, key: Any, value: Any) -> None:
    type(mapping).__setitem__(mapping, key, value)


def _first(mapping: Any) -> Any:
    return next(dict.__iter__(mapping))


def _turned(mapping: Any) -> None:
    key = _first(mapping)
    _put(mapping, key, type(mapping).pop(mapping, key))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "another value": lambda m: _put(m, _first(m), 7),
    "one more": lambda m: _put(m, "more", 7),
    "one less": lambda m: type(m).pop(m, _first(m)),
    "another key": lambda m: (type(m).pop(m, _first(m)), _put(m, "other", 1000.5)),
    "another order": _turned,
    "nothing left": lambda m: type(m).clear(m),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", MAPPINGS)
def test_a_mapping(kind: str, change: str) -> None:
    mapping = MAPPINGS[kind]()
    guards = UseGuards(Uses([_whole(mapping)], []))
    assert guards.hold() and guards._hold()
    CHANGES[change](mapping)
    assert not guards.hold()
    assert guards.difference() == "the content of it, which the step reads, has changed"


@pytest.mark.parametrize("kind", MAPPINGS)
def test_an_equal_value_is_no_change_and_is_known_from_then_on(kind: str) -> None:
    mapping = MAPPINGS[kind]()
    guards = UseGuards(Uses([_whole(mapping)], []))
    if "functions" not in kind:
        _put(mapping, _first(mapping), float("1000.5"))
        assert not guards._hold()
    assert guards.hold() and guards._hold()


@pytest.mark.parametrize("now", [1, 1.0, True, -0.0, 0.0, False, math.nan, None])
@pytest.mark.parametrize("before", [1, 1.0, True, -0.0, 0.0, False, math.nan, None])
def test_numbers_that_are_equal_and_are_not_the_same(before: Any, now: Any) -> None:
    mapping = {"a": before}
    guards = UseGuards(Uses([_whole(mapping)], []))
    mapping["a"] = now
    assert guards.hold() == (repr(before) == repr(now))


def test_an_entry_that_is_among_what_another_guard_took_is_compared_once() -> None:
    mapping = {"a": 1, "b": 2}
    guards = UseGuards(Uses([_entry(mapping, "a"), _entry(mapping, "c"), _whole(mapping)], []))
    assert guards.hold() and guards._hold.__code__.co_freevars.count("v0") == 0
    mapping["a"] = 1000
    assert guards.difference() == "it.a, which the step reads, is 1000 and was 1"
    mapping |= {"a": 1, "c": 3}
    assert guards.difference() == "it.c, which the step reads, is 3 and was not there"
    del mapping["c"]
    assert guards.hold()


def test_an_entry_that_the_step_set_before_it_took_all_is_compared_as_it_was() -> None:
    """The step read 1, set 5, and then took the whole."""
    mapping = {"a": 1}
    first = _entry(mapping, "a")
    mapping["a"] = 5
    guards = UseGuards(Uses([first, _whole(mapping)], []))
    assert not guards.hold()
    mapping["a"] = 1
    assert not guards.hold()


def test_forms_in_turn_are_told_apart_by_the_generated_function(service, monkeypatch) -> None:
    """As those of a step that accumulates gradients: an exact look takes ten times as long."""
    model = net()
    optimizer = sgd(model)
    box = types.SimpleNamespace(factor=1.0)

    @laneway.step(model, optimizer, service=service)
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * box.factor
        loss.backward()
        optimizer.step()
        return loss

    looks = []
    exact = Guard.now
    monkeypatch.setattr(Guard, "now", lambda guard: looks.append(guard) or exact(guard))
    factors = (1.0, 2.0)
    for number, batch in enumerate(batches(6)):
        box.factor = factors[number % 2]
        if number == 2:
            looks.clear()
        train(*batch)
    assert train.report()["captures"]["made"] == 2 and not looks
