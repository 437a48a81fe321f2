"""Runs one job in plain PyTorch and through a service: the same function, which makes its steps and
inferences by the lane that it is given, and returns what is to be compared. Both ways begin with
the same random numbers."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same


class Eager:
    """Runs what it is given as it stands."""

    is_eager = True

    def step(self, model: Any, optimizer: Any, **options: Any) -> Callable[[Any], Any]:
        return lambda function: function

    def train_step(
        self, model: Any, loss_fn: Any, optimizer: Any, **options: Any
    ) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_fn(model(*inputs[:-1]), inputs[-1])
            loss.backward()
            optimizer.step()
            return loss

        return call

    def inference(self, model: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            with torch.no_grad(), _evaluating(model):
                return model(*inputs)

        return call


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class Served:
    """Makes jobs of a service; `made` are its steps and inferences."""

    is_eager = False

    def __init__(self, service: laneway.Service) -> None:
        self.service = service
        self.made: list[Any] = []

    def step(self, model: Any, optimizer: Any, **options: Any) -> Callable[[Any], Any]:
        return lambda function: self._kept(
            laneway.step(model, optimizer, service=self.service, **options)(function)
        )

    def train_step(self, model: Any, loss_fn: Any, optimizer: Any, **options: Any) -> Any:
        return self._kept(laneway.train_step(model, loss_fn, optimizer, self.service, **options))

    def inference(self, model: Any) -> Any:
        return self._kept(laneway.inference(model, self.service))

    def _kept(self, made: Any) -> Any:
        self.made.append(made)
        return made

    def graphs(self) -> int:
        """How many graphs the first of them was captured to."""
        return self.made[0]._variants.counts()["made"]


Job = Callable[[Any], Any]


def check_equal(job: Job, service: laneway.Service) -> Served:
    """The job gives eager's bits; the lane that it ran in."""
    expected = _run(job, Eager())
    lane = Served(service)
    assert_same(expected, _run(job, lane))
    return lane


def check_refused(
    job: Job,
    service: laneway.Service,
    *words: str,
    error: type[laneway.Error] = laneway.CaptureError,
) -> str:
    """The job is refused in these words (regular expressions); the message is returned whole."""
    _run(job, Eager())
    with pytest.raises(error) as caught:
        _run(job, Served(service))
    for each in words:
        assert re.search(each, str(caught.value)), str(caught.value)
    return re.sub(r"\s+", " ", str(caught.value))


def _run(job: Job, lane: Any) -> Any:
    random.seed(0)
    torch.manual_seed(0)
    return _plain(job(lane))


def _plain(result: Any) -> Any:
    """Modules and optimizers as their states, tensors without gradients."""
    if isinstance(result, (nn.Module, torch.optim.Optimizer)):
        return _plain(dict(result.state_dict()))
    if isinstance(result, dict):
        return {key: _plain(part) for key, part in result.items()}
    if isinstance(result, (list, tuple)):
        return [_plain(part) for part in result]
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def net(*extra: nn.Module) -> nn.Module:
    """A small classifier: 8 inputs, 4 classes."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *extra, nn.Linear(16, 4))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def batches(count: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of that classifier, the same in each call."""
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(8, 8, generator=generator),
            torch.randint(0, 4, (8,), generator=generator),
        )
        for _ in range(count)
    ]


def trained(
    lane: Any,
    loss_of: Callable[..., torch.Tensor],
    model: nn.Module | None = None,
    between: Callable[[int], Any] = lambda number: None,
    count: int = 5,
    after: Callable[[torch.Tensor], Any] | None = None,
) -> tuple[list[torch.Tensor], nn.Module]:
    """The losses and weights of a training by loss_of(model, x, y); between(n) is called before the
    n-th iteration, after(loss) in each."""
    model = net() if model is None else model
    optimizer = sgd(model)

    @lane.step(model, optimizer)
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        if after is not None:
            after(loss)
        return loss

    losses = []
    for number, batch in enumerate(batches(count)):
        between(number)
        losses.append(train(*batch))
    return losses, model
