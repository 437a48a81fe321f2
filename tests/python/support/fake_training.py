"""Training on the fake CUDA, whose kernels do nothing: whatever happens to a job, its weights are
what they were at first, and its optimizer's step counters, which the CPU keeps, count its
iterations. So every copy of the job's state can be checked to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import laneway

KINDS = ("mlp", "cnn", "lstm", "gpt")


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(inputs)[0][:, -1])


class _Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(50, 32), nn.Linear(32, 3)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.block(self.tokens(tokens)).mean(1))


def model_of(kind: str) -> nn.Module:
    if kind == "mlp":
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 3))
    if kind == "cnn":
        layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 3))
    return _Lstm() if kind == "lstm" else _Gpt()


def batch_of(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    inputs: dict[str, Callable[[], torch.Tensor]] = {
        "mlp": lambda: torch.randn(4, 64),
        "cnn": lambda: torch.randn(4, 3, 16, 16),
        "lstm": lambda: torch.randn(4, 5, 8),
        "gpt": lambda: torch.randint(0, 50, (4, 16)),
    }
    return inputs[kind](), torch.randint(0, 3, (4,))


class Trial:
    """A job of one kind in a service, and what is known of its state."""

    def __init__(self, service: Any, kind: str, **options: Any) -> None:
        self.kind, self.iterations = kind, 0
        model = model_of(kind)
        self.at_first = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer = torch.optim.Adam(model.parameters())
        loss_fn = nn.CrossEntropyLoss()
        self.step = laneway.train_step(model, loss_fn, optimizer, service, **options)

    def train(self, iterations: int) -> Trial:
        for _ in range(iterations):
            self.step(*batch_of(self.kind))
            self.iterations += 1
        return self

    def check(self) -> None:
        """Reads the job's state and compares all of it."""
        state = self.step.state_dict()
        assert state["model"].keys() == self.at_first.keys()
        for name, value in self.at_first.items():
            assert torch.equal(state["model"][name], value), f"{self.kind}: {name} changed"
        kept = state["optimizer"]["state"]
        assert len(kept) == len(self.at_first)
        for number, entry in kept.items():
            assert entry["step"].item() == self.iterations, (self.kind, number, entry["step"])
            assert not entry["exp_avg"].any() and not entry["exp_avg_sq"].any()


def rounds(trials: list[Trial], count: int) -> None:
    """One iteration of each, `count` times."""
    for _, trial in itertools.product(range(count), trials):
        trial.train(1)
