"""The small models: an MLP, a convolutional network with batch-norm and dropout, an LSTM."""

from __future__ import annotations

import torch
from torch import nn

from .workload import Workload, adam, adamw, cross_entropy, dense_batches, sgd


def mlp(seed: int, form: str) -> Workload:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return Workload("mlp", model, cross_entropy, adamw(model, form), dense_batches(seed, (64, 64)))


def cnn(seed: int, form: str) -> Workload:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(32 * 7 * 7, 10),
    )
    batches = dense_batches(seed, (64, 1, 28, 28))
    return Workload("cnn", model, cross_entropy, sgd(model, form), batches)


class LstmClassifier(nn.Module):
    """One LSTM layer, 64 to 128; the last step's output is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs, _ = self.lstm(x)
        return self.head(outputs[:, -1])


def lstm(seed: int, form: str) -> Workload:
    model = LstmClassifier()
    batches = dense_batches(seed, (16, 32, 64))
    return Workload("lstm", model, cross_entropy, adam(model, form), batches)
