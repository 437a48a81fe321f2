"""The same training through a service and in plain PyTorch, on the same inputs, compared bit for
bit; and calls that must be refused and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.eager import assert_same, eager_step


def classifier() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def make(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    return model, torch.optim.AdamW(model.parameters())


class Pair:
    """The same training here and in plain PyTorch, on the same inputs."""

    def __init__(
        self,
        service: Any,
        model: Callable[[], nn.Module] = classifier,
        loss: Any = F.cross_entropy,
        name: str | None = None,
    ) -> None:
        self.loss = loss
        self.model, self.optimizer = make(model())
        captured, optimizer = make(model())
        self.step = laneway.train_step(captured, loss, optimizer, service, name=name, random="own")

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *exception: object) -> None:
        self.step.close()

    def train(self, *inputs: Any) -> None:
        """One step on each side; the losses, and the inputs' gradients, must be the same bits."""
        leaves = [i for i in inputs if isinstance(i, torch.Tensor) and i.is_leaf]
        expected = eager_step(self.model, self.loss, self.optimizer, inputs)
        gradients = _taken(leaves)
        assert_same(expected.detach(), self.step(*inputs), "loss")
        assert_same(gradients, _taken(leaves), "gradients of inputs")

    def refuse(self, match: str, *inputs: Any) -> str:
        """The call is refused, and nothing of the job has changed."""
        before = self.step.state_dict()
        refused = (laneway.InvalidInput, laneway.CaptureError)
        with pytest.raises(refused, match=match) as caught:
            self.step(*inputs)
        with pytest.raises(refused, match=match):
            self.step.submit(*inputs).result()
        assert_same(before, self.step.state_dict(), "state after a refusal")
        return str(caught.value)

    def check(self) -> None:
        state = self.step.state_dict()
        assert_same(self.model.state_dict(), state["model"], "model")
        assert_same(self.optimizer.state_dict(), state["optimizer"], "optimizer")


def _taken(leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    gradients = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return gradients


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(4, 8, generator=generator),
        torch.randint(0, 3, (4,), generator=generator),
    )
