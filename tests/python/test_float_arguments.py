"""Shows that a float argument with another value in each call needs two captures in all and gives
eager's bits, and that one that Python decides by, formats or needs at once stays a constant, with a
capture for each value, as eager's bits demand.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, net

ANNEALED = [0.0, 1e-3, -0.0, 0.5, math.inf, 0.5, math.nan, 2.0, -1.5]


def annealed(use: Any, values: list[Any]) -> Any:
    """A job whose step is given each of the values: use(loss, model, value) is its loss."""

    def job(lane):
        model = net(nn.Dropout(0.2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        @lane.step(model, optimizer)
        def train(x, y, value, other=1.0):
            optimizer.zero_grad()
            loss = use(F.cross_entropy(model(x), y), model, value) * other
            loss.backward()
            optimizer.step()
            return loss

        return [train(*batches(1)[0], value).detach() for value in values], model

    return job


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


def penalty(model: nn.Module) -> torch.Tensor:
    return sum(p.square().sum() for p in model.parameters())


AS_INPUTS = {
    "a factor": lambda loss, model, value: loss * value,
    "a weight of a penalty": lambda loss, model, value: loss + value * penalty(model),
    "a convex sum": lambda loss, model, value: (1 - value) * loss + value * loss.square(),
    "a temperature": lambda loss, model, value: loss / (value + 2) - value,
    "a reversed gradient": lambda loss, model, value: Reverse.apply(loss, value),
    "a fill": lambda loss, model, value: loss + torch.full_like(loss, value),
}


@pytest.mark.parametrize("kind", AS_INPUTS)
def test_a_float_that_changes_is_an_input_of_the_second_graph(service, kind) -> None:
    lane = check_equal(annealed(AS_INPUTS[kind], ANNEALED), service)
    assert lane.graphs() == 2


def decided(loss: torch.Tensor, model: nn.Module, value: float) -> torch.Tensor:
    return loss * value if value > 0.4 else loss + value


def formatted(loss: torch.Tensor, model: nn.Module, value: float) -> torch.Tensor:
    return loss * float(f"{value:.1f}")


AS_CONSTANTS = {
    "decided by": decided,
    "formatted": formatted,
    "by math": lambda loss, model, value: loss * math.exp(value),
    "in C++": lambda loss, model, value: loss + F.dropout(loss.expand(4), p=value).sum(),
    "as an exponent": lambda loss, model, value: loss**value,
    "as alpha": lambda loss, model, value: loss.add(penalty(model), alpha=value),
    "as an integer": lambda loss, model, value: loss * int(value * 4),
}


@pytest.mark.parametrize("kind", AS_CONSTANTS)
def test_a_float_that_python_needs_is_a_constant(service, kind) -> None:
    lane = check_equal(annealed(AS_CONSTANTS[kind], [0.25, 0.5, 0.75, 0.5]), service)
    assert lane.graphs() in (2, 3)


def test_another_type_is_another_form(service) -> None:
    job = annealed(AS_INPUTS["a factor"], [0.5, 1.5, 2, True, 2.5, 2, 3.5])
    assert check_equal(job, service).graphs() == 4


def test_a_float_that_stays_is_no_input(service) -> None:
    model = net()
    train = laneway.train_step(
        model, lambda out, y: F.cross_entropy(out, y), torch.optim.SGD(model.parameters(), lr=0.1),
        service=service,
    )  # fmt: skip
    train(*batches(1)[0])
    predict = laneway.inference(train, closure=lambda m, x, factor: m(x) * factor)
    x = batches(1)[0][0]
    for _ in range(3):
        assert torch.equal(predict(x, 2.0), model.eval()(x) * 2.0)
    assert predict._variants.counts()["made"] == 1


def test_an_inference_takes_floats_in_keywords_and_containers(service) -> None:
    def job(lane):
        class Mixed(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(8, 4)

            def forward(self, x, options, scale=1.0):
                return self.linear(x) * options["a"][0] + options["b"] * scale

        torch.manual_seed(1)
        predict = lane.inference(Mixed())
        x = batches(1)[0][0]
        calls = [({"a": [a], "b": b},) for a, b in ((0.5, 1.0), (0.7, 1.0), (0.9, 1.0), (1.1, 2.0))]
        return [predict(x, *call) for call in calls] + [predict(x, *calls[0])]

    assert check_equal(job, service).graphs() == 3


def test_floats_may_be_submitted_and_verified(service) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @laneway.step(model, optimizer, service=service, verify=1)
    def train(x, y, value):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * value
        loss.backward()
        optimizer.step()
        return loss

    for number, batch in enumerate(batches(6)):
        train.submit(*batch, number / 4).result()
    assert train._variants.counts()["made"] == 2
