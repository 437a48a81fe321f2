"""Captured steps leave the bits of eager, and their graphs have the form that they must.

A few cases train a small model with plain PyTorch and with the captured graph and compare result,
parameters, buffers, optimizer state and random state after every step. The layers, operators and
losses that people use are rows of python/SUPPORT.md, which train them through the engine: see
support_rows/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.eager import check_training
from support.trial import adamw, sgd
from support_rows.functions import After, assigned, conjugated


class Then(nn.Module):
    """A function of a module's output as a module."""

    def __init__(self, body: nn.Module, head: nn.Module, between: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body, self.head, self.between = body, head, between

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.between(self.body(*inputs)))


class Tied(nn.Module):
    """A language model whose output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.output = nn.Linear(8, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.norm(self.embedding(tokens))).flatten(0, 1)


class RunningMean(nn.Module):
    """Buffers written in every way: assigned anew, through a view, in place, read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.register_buffer("mean", torch.zeros(12))
        self.register_buffer("previous", torch.zeros(12))
        self.register_buffer("pair", torch.zeros(2, 12))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.previous = self.mean
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.pair[0].copy_(self.mean)
        self.pair[1].add_(x.detach().amax(0) / self.steps)
        return self.linear(x - self.pair.sum(0))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 4, 32, dropout=0.1, batch_first=True)
    return Then(nn.TransformerEncoder(layer, 2), nn.Linear(12, 5), lambda x: x.mean(1))


def recurrent() -> nn.Module:
    layer = nn.LSTM(12, 16, num_layers=2, dropout=0.2, batch_first=True)
    return Then(layer, nn.Linear(16, 5), lambda outputs: outputs[0][:, -1])


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=4, bias=False),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8, 5),
    )


def drawn(x: torch.Tensor) -> torch.Tensor:
    """Draws of several kinds, one after the other."""
    x = x * torch.rand(5) + torch.randn(5, dtype=torch.float64).float() + torch.rand_like(x)
    x = x * torch.randint(3, (5,)) + torch.normal(0.0, 1.0, (5,)) + torch.empty(5).exponential_()
    return F.gumbel_softmax(x[:, torch.randperm(5)]) + torch.poisson(torch.full((5,), 0.5))


def dense() -> tuple:
    return torch.randn(8, 12), torch.randint(0, 5, (8,))


def sequence() -> tuple:
    return torch.randn(4, 6, 12), torch.randint(0, 5, (4,))


def image() -> tuple:
    return torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))


def tokens() -> tuple:
    text = torch.randint(0, 11, (3, 7))
    return text, text.roll(1, 1).flatten()


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple]]] = {
    "transformer": (transformer, sequence),
    "recurrent": (recurrent, sequence),
    "buffers": (RunningMean, dense),
    "drawn": (lambda: After(drawn), dense),
    "assigned": (lambda: After(assigned), dense),
    "conjugated": (lambda: After(conjugated), dense),
}


@pytest.mark.parametrize("case", CASES)
def test_a_case_leaves_the_bits_of_eager(case: str) -> None:
    make_model, make_batch = CASES[case]
    check_training(make_model(), adamw, F.cross_entropy, [make_batch() for _ in range(3)])


def test_buffers_are_written_after_the_gradients() -> None:
    """The late form: nothing persistent is written before the last backward operator has run, and
    batch-norm's statistics are not written where the forward pass computes them."""
    captured, _ = check_training(convolutions(), sgd, F.cross_entropy, [image()] * 2)
    graph = captured.graph
    backward = [i for i, node in enumerate(graph.nodes) if "backward" in node.op]
    assert graph.first_write > max(backward)
    writers = [n for n in graph.nodes if any(map(graph.is_persistent, n.writes))]
    assert all(node in graph.nodes[graph.first_write :] for node in writers)


def test_tied_weights_share_a_slot() -> None:
    """One storage, one slot, two names."""
    captured, _ = check_training(Tied(), adamw, F.cross_entropy, [tokens()] * 2)
    slot = captured.slots[0]
    assert [tensor.path for tensor in slot.tensors] == [
        ("model", "embedding.weight"),
        ("model", "output.weight"),
    ]


def test_batch_norm_of_a_permuted_input_is_dense_as_in_eager() -> None:
    """Whether the linear layer behind it may look at it as a matrix depends on that."""

    class Permuted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.norm(x.transpose(1, 2)).transpose(1, 2)).square().mean()

    check_training(Permuted(), sgd, None, [(torch.randn(4, 5, 6),) for _ in range(3)])
