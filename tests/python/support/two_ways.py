"""One job done in eager PyTorch and through Laneway, compared bit for bit.

A job is a function job(lane): the lane makes its steps and inferences, and what the job returns is
compared. Both ways begin with the same random numbers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same


class Eager:
    """Steps as a user writes them."""

    is_eager = True

    def step(self, model: Any, optimizer: Any, **options: Any) -> Callable[..., Any]:
        return lambda function: function

    def train_step(self, model: Any, loss_fn: Any, optimizer: Any, **options: Any) -> Any:
        def call(*inputs: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_fn(model(*inputs[:-1]), inputs[-1])
            loss.backward()
            optimizer.step()
            return loss

        return call

    def inference(self, model: nn.Module, **options: Any) -> Any:
        def call(*inputs: Any) -> Any:
            with torch.no_grad(), evaluating(model):
                return model(*inputs)

        return call


class Captured:
    is_eager = False

    def __init__(self, service: Any) -> None:
        self._service = service

    def step(self, model: Any, optimizer: Any, **options: Any) -> Any:
        return laneway.step(model, optimizer, service=self._service, **options)

    def train_step(self, *parts: Any, **options: Any) -> Any:
        return laneway.train_step(*parts, service=self._service, **options)

    def inference(self, model: nn.Module, **options: Any) -> Any:
        return laneway.inference(model, service=self._service, **options)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def eager(job: Callable[[Any], Any]) -> Any:
    torch.manual_seed(0)
    return plain(job(Eager()))


def captured(job: Callable[[Any], Any], pool: str = "64MiB") -> Any:
    torch.manual_seed(0)
    with laneway.embedded(pool) as service:
        return plain(job(Captured(service)))


def check(job: Callable[[Any], Any]) -> None:
    """The job has eager's bits."""
    assert_same(eager(job), captured(job))


def check_refused(job: Callable[[Any], Any], *words: str) -> str:
    """Laneway refuses what eager does, in these words."""
    eager(job)
    with pytest.raises(laneway.Error) as refused:
        captured(job)
    for word in words:
        assert re.search(word, str(refused.value)), str(refused.value)
    return str(refused.value)


def plain(value: Any) -> Any:
    """Modules and optimizers as their states, tensors without gradients."""
    if isinstance(value, (nn.Module, torch.optim.Optimizer)):
        return plain(value.state_dict())
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def net(inputs: int = 8, hidden: int = 16, outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def batches(count: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 8, generator=generator), torch.randint(0, 4, (8,), generator=generator))
        for _ in range(count)
    ]
