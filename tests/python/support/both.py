"""Runs one job in plain PyTorch and through a service: the same function, which makes its steps and
inferences by the lane that it is given, and returns what is to be compared."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import laneway
from support.eager import assert_same


class Eager:
    """Runs what it is given as it stands."""

    def step(self, model: Any, optimizer: Any) -> Callable[[Any], Any]:
        return lambda function: function

    def train_step(self, model: Any, loss_fn: Any, optimizer: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_fn(model(*inputs[:-1]), inputs[-1])
            loss.backward()
            optimizer.step()
            return loss

        return call

    def inference(self, model: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            was = model.training
            model.eval()
            with torch.no_grad():
                found = model(*inputs)
            model.train(was)
            return found

        return call


class Served:
    """Makes jobs of a service; `made` are its steps and inferences."""

    def __init__(self, service: laneway.Service) -> None:
        self.service = service
        self.made: list[Any] = []

    def step(self, model: Any, optimizer: Any) -> Callable[[Any], Any]:
        return lambda function: self._kept(
            laneway.step(model, optimizer, service=self.service)(function)
        )

    def train_step(self, model: Any, loss_fn: Any, optimizer: Any) -> Any:
        return self._kept(laneway.train_step(model, loss_fn, optimizer, self.service))

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


def check_refused(job: Job, service: laneway.Service, words: str) -> str:
    """The job is refused in these words (a regular expression), which are returned whole."""
    _run(job, Eager())
    with pytest.raises(laneway.CaptureError, match=words) as caught:
        _run(job, Served(service))
    return re.sub(r"\s+", " ", str(caught.value))


def _run(job: Job, lane: Any) -> Any:
    random.seed(0)
    torch.manual_seed(0)
    return _plain(job(lane))


def _plain(result: Any) -> Any:
    if isinstance(result, torch.nn.Module):
        return dict(result.state_dict())
    if isinstance(result, dict):
        return {key: _plain(part) for key, part in result.items()}
    if isinstance(result, (list, tuple)):
        return [_plain(part) for part in result]
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def net(*extra: torch.nn.Module) -> torch.nn.Module:
    """A small classifier: 8 inputs, 4 classes."""
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), *extra, torch.nn.Linear(16, 4)
    )


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
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
