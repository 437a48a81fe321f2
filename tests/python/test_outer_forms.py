"""Shows that what a step asks of a tensor from outside beside its numbers is eager's in every
call: what it is like, also when that changes in place, and whether it is the one that stands
elsewhere."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import check_equal, trained


def _ones(rows: int = 2, **form: Any) -> torch.Tensor:
    return torch.ones(rows, 4, **form)


def _put(name: str, make: Any) -> Any:
    return lambda box, number: setattr(box, name, make(box, number))


def _other_or(box: Any, number: int) -> torch.Tensor:
    return box.other if number % 2 else _ones()


def _swap(box: Any, number: int) -> None:
    box.one, box.other = box.other, box.one


def _both(box: Any, number: int) -> None:
    box.one = box.other = torch.full((2, 4), float(number))


# What the step computes with, what changes it before iteration n, and how many graphs that takes.
CASES = {
    "requires_grad, in place": (
        lambda box: 2.0 if box.one.requires_grad else 1.0,
        lambda box, number: box.one.requires_grad_(bool(number % 2)),
        2,
    ),
    "a size, by .data": (
        lambda box: float(box.one.size(0)),
        lambda box, number: setattr(box.one, "data", _ones(2 + number % 2)),
        2,
    ),
    "a size of one that is used, by .data": (
        lambda box: box.one.sum(),
        lambda box, number: setattr(box.one, "data", _ones(2 + number % 2)),
        2,
    ),
    "a dtype of one that is used, by .data": (
        lambda box: box.one.sum(),
        lambda box, number: setattr(
            box.one, "data", _ones(dtype=torch.float64 if number % 2 else torch.float32)
        ),
        2,
    ),
    "a dtype, by .data": (
        lambda box: 2.0 if box.one.dtype == torch.float64 else 1.0,
        lambda box, number: setattr(
            box.one, "data", _ones(dtype=torch.float64 if number % 2 else torch.float32)
        ),
        2,
    ),
    "a stride, in place": (
        lambda box: float(box.one.stride(0)),
        lambda box, number: box.one.t_(),
        2,
    ),
    "the order of a new one": (
        lambda box: 2.0 if box.one.is_contiguous() else 1.0,
        _put("one", lambda box, number: torch.ones(4, 2).t() if number % 2 else _ones()),
        2,
    ),
    "whether it is a parameter": (
        lambda box: 2.0 if isinstance(box.one, nn.Parameter) else 1.0,
        _put(
            "one", lambda box, n: nn.Parameter(_ones(), requires_grad=False) if n % 2 else _ones()
        ),
        2,
    ),
    "whether it is the other": (
        lambda box: 2.0 if box.one is box.other else 1.0,
        _put("one", _other_or),
        2,
    ),
    "whether the other is it": (
        lambda box: 2.0 if box.one is box.other else 1.0,
        _put("other", lambda box, number: box.one if number % 2 else _ones()),
        2,
    ),
    "whether it is the other, which is used": (
        lambda box: box.one.sum() * (2.0 if id(box.one) == id(box.other) else 1.0),
        _put("one", _other_or),
        2,
    ),
    "whether a list has it": (
        lambda box: 2.0 if any(part is box.one for part in box.all) else 1.0,
        _put("one", lambda box, number: box.all[0] if number % 2 else _ones()),
        2,
    ),
    "two that change places": (lambda box: (box.one * 2 + box.other).sum(), _swap, 2),
    "another one, used": (
        lambda box: (box.one * 2 + box.other).sum(),
        _put("one", lambda box, number: torch.full((2, 4), float(number))),
        1,
    ),
    "one that is in both places": (lambda box: (box.one * 2 + box.other).sum(), _both, 1),
    "one in a new list": (
        lambda box: box.all[0].sum() + box.one.sum(),
        _put("all", lambda box, number: [torch.full((2, 4), float(number))]),
        1,
    ),
    "one that comes into a list": (
        lambda box: box.all[0].sum() + box.one.sum(),
        _put("all", lambda box, number: [box.one] if number % 2 else [_ones()]),
        2,
    ),
}


def _job(read: Any, change: Any) -> Any:
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(one=_ones(), other=_ones() * 2, all=[_ones()])

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * read(box)

        return trained(lane, loss_of, between=lambda number: change(box, number))

    return job


@pytest.mark.parametrize("case", CASES)
def test_each_call_is_eagers(case, service):
    read, change, graphs = CASES[case]
    assert check_equal(_job(read, change), service).graphs() == graphs
