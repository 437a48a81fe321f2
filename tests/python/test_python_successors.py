"""Shows that another object of equal content in the place of one that a step read is no other form
of call: a mask that was made anew, a list that a saved configuration got. What differs, or comes to
differ, is seen."""

from __future__ import annotations

import collections
import copy
import types
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from support.both import check_equal, net, trained


def factors(held: Any) -> list[float]:
    """The numbers in it."""
    if isinstance(held, dict):
        return [number for part in held.values() for number in factors(part)]
    if isinstance(held, (list, tuple, set, collections.deque)):
        return [number for part in held for number in factors(part)]
    return [held] if isinstance(held, float) else []


CONTAINERS = {
    "a list": [1.0, 2.0],
    "a dictionary": {"a": 1.0, "b": "text"},
    "a set": {1.0, 3.0},
    "an ordered one": collections.OrderedDict(b=2.0, a=1.0),
    "a counter": collections.Counter({"a": 1.0}),
    "a deque": collections.deque([1.0, 2.0], maxlen=3),
    "nested": {"a": [1.0, {"b": [2.0]}], "c": ([3.0], "text")},
}


def _graphs(service: Any, held: Any, between: Any) -> int:
    """How many a step needs that reads what `held` has, changed by between(box, number)."""

    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(held=copy.deepcopy(held), other=None)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * sum(factors(box.held))

        return trained(lane, loss_of, between=lambda number: between(box, number))

    return check_equal(job, service).graphs()


@pytest.mark.parametrize("kind", CONTAINERS)
def test_an_equal_container(kind, service):
    def renew(box: Any, number: int) -> None:
        box.held = copy.deepcopy(box.held)

    assert _graphs(service, CONTAINERS[kind], renew) == 1


def _changed(box: Any) -> None:
    box.held["a"][1]["b"][0] += 1.0


def test_what_changes_in_it_later_is_seen(service):
    def between(box: Any, number: int) -> None:
        if number == 1:
            box.held = copy.deepcopy(box.held)
        if number == 3:
            _changed(box)

    assert _graphs(service, CONTAINERS["nested"], between) == 2


def test_what_differs_in_the_new_one_is_seen(service):
    def between(box: Any, number: int) -> None:
        box.held = copy.deepcopy(box.held)
        if number == 2:
            _changed(box)

    assert _graphs(service, CONTAINERS["nested"], between) == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([1.0, 2.0], id="another order"),
        pytest.param((2.0, 1.0), id="another kind"),
        pytest.param([2.0, 1.0, 0.0], id="one more"),
        pytest.param([2, 1.0], id="another kind of number"),
    ],
)
def test_one_that_is_only_like_it(other, service):
    def between(box: Any, number: int) -> None:
        if number == 2:
            box.held = copy.deepcopy(other)

    assert _graphs(service, [2.0, 1.0], between) == 2


def test_a_deque_of_another_length(service):
    def between(box: Any, number: int) -> None:
        if number == 2:
            box.held = collections.deque(box.held, maxlen=7)

    assert _graphs(service, CONTAINERS["a deque"], between) == 2


def test_one_that_stays_in_another_place(service):
    """There it changes."""

    def job(lane: Any) -> Any:
        both = [1.0, 2.0]
        box = types.SimpleNamespace(first=both, second=both)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * (sum(box.first) + 2 * sum(box.second))

        def between(number: int) -> None:
            if number == 1:
                box.first = list(both)
            if number == 2:
                both[0] = 3.0
            if number == 3:
                box.first[0] = 4.0

        return trained(lane, loss_of, between=between)

    check_equal(job, service)


def test_one_that_the_step_changes(service):
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(known={"calls": 1.0})

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            box.known["last"] = 2.0
            return F.cross_entropy(model(x), y) * box.known["calls"]

        def between(number: int) -> None:
            if number in (1, 3):
                box.known = {"calls": 1.0}

        return trained(lane, loss_of, between=between), box.known

    check_equal(job, service)


def test_a_list_of_modules(service):
    def job(lane: Any) -> Any:
        model = net()
        box = types.SimpleNamespace(layers=list(model))

        def loss_of(_: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for layer in box.layers:
                x = layer(x)
            return F.cross_entropy(x, y)

        def between(number: int) -> None:
            box.layers = list(model) if number != 3 else [*model, torch.nn.Tanh()]

        return trained(lane, loss_of, model, between)

    assert check_equal(job, service).graphs() == 2


def _mask_of(rows: int) -> torch.Tensor:
    return torch.ones(rows, 4)


def _masked(between: Any) -> Any:
    """As the example word_language_model keeps its mask."""

    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(mask=_mask_of(8))

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if box.mask is None or box.mask.size(0) != len(x):
                box.mask = torch.ones(len(x), 4) * 0.5
            return F.cross_entropy(model(x) * box.mask, y)

        return trained(lane, loss_of, between=lambda number: between(box, number))

    return job


def test_a_tensor_of_which_only_the_sizes_are_read(service):
    def between(box: Any, number: int) -> None:
        box.mask = _mask_of(5)

    assert check_equal(_masked(between), service).graphs() == 1


def test_other_sizes_are_seen(service):
    def between(box: Any, number: int) -> None:
        box.mask = _mask_of(8 if number == 3 else 5)

    assert check_equal(_masked(between), service).graphs() == 2


READS = {
    "its truth": lambda tensor: 2.0 if tensor.sum() > 1 else 3.0,
    "its number": lambda tensor: tensor[0].item(),
    "its list": lambda tensor: tensor.tolist()[0],
    "its array": lambda tensor: float(tensor.numpy()[0]),
    "whether it is that": lambda tensor: 2.0 if torch.equal(tensor, torch.ones(2)) else 3.0,
    "its text": lambda tensor: float(str(tensor)[8]),
}


@pytest.mark.parametrize("what", READS)
def test_a_tensor_by_whose_values_the_step_decides(what, service):
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(coin=torch.zeros(2))

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * (1 + READS[what](box.coin))

        def between(number: int) -> None:
            box.coin = torch.full((2,), float(number % 2))

        return trained(lane, loss_of, between=between)

    check_equal(job, service)


@pytest.mark.parametrize("is_used", [False, True])
def test_an_attribute_of_the_new_tensor(is_used, service):
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(mask=_mask_of(8))
        box.mask.factor = 1.0

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = model(x) * box.mask if is_used else model(x)
            return F.cross_entropy(out, y) * getattr(box.mask, "factor", 3.0)

        def between(number: int) -> None:
            box.mask = _mask_of(8)
            if number != 3:
                box.mask.factor = float(number)

        return trained(lane, loss_of, between=between)

    check_equal(job, service)


def test_the_gradient_of_the_new_tensor(service):
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(of=torch.ones(8, 4))
        box.of.grad = torch.ones(8, 4)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x) * (2.0 if box.of.grad is None else 1.0), y)

        def between(number: int) -> None:
            box.of = torch.ones(8, 4)
            box.of.grad = None if number % 2 else torch.ones(8, 4)

        return trained(lane, loss_of, between=between)

    check_equal(job, service)


def test_the_address_of_the_new_tensor(service):
    def job(lane: Any) -> Any:
        both = torch.ones(2), torch.ones(2)
        box = types.SimpleNamespace(one=both[0], other=both[0])

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            is_one = box.one.data_ptr() == box.other.data_ptr()
            return F.cross_entropy(model(x), y) * (1.0 if is_one else 2.0)

        def between(number: int) -> None:
            box.other = both[number % 2]

        return trained(lane, loss_of, between=between)

    check_equal(job, service)


def test_the_gradient_of_the_same_tensor(service):
    def job(lane: Any) -> Any:
        of = torch.ones(8, 4)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x) * (2.0 if of.grad is None else 1.0), y)

        def between(number: int) -> None:
            of.grad = None if number % 2 else torch.ones(8, 4)

        return trained(lane, loss_of, between=between)

    check_equal(job, service)
