"""Captured steps leave the bits of eager for the layers that people train.

Each case trains a small model with plain PyTorch and with the captured graph and compares result,
parameters, buffers, optimizer state and random state after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.eager import check_training


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Then(nn.Module):
    """A function of a module's output as a module."""

    def __init__(self, body: nn.Module, head: nn.Module, between: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body, self.head, self.between = body, head, between

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.between(self.body(*inputs)))


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence with itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **options)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x, need_weights=False)
        return self.head(attended.mean(1))


class CausalAttention(nn.Module):
    """Fused attention with a causal mask."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.head = nn.Linear(16, 5)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.head(attended.transpose(1, 2).flatten(-2).mean(1))


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


def recurrent(kind: type, **options: Any) -> nn.Module:
    return Then(
        kind(12, 16, batch_first=True, **options),
        nn.Linear(16, 5),
        lambda outputs: outputs[0][:, -1],
    )


def transformer(dropout: float) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=dropout, batch_first=True)
    return Then(nn.TransformerEncoder(layer, 2), nn.Linear(16, 5), lambda x: x.mean(1))


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


def dense() -> tuple:
    return torch.randn(8, 12), torch.randint(0, 5, (8,))


def sequence() -> tuple:
    return torch.randn(4, 6, 16), torch.randint(0, 5, (4,))


def narrow_sequence() -> tuple:
    return torch.randn(4, 6, 12), torch.randint(0, 5, (4,))


def image() -> tuple:
    return torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))


def channels_last() -> tuple:
    return (
        torch.randn(4, 3, 12, 12).to(memory_format=torch.channels_last),
        torch.randint(0, 5, (4,)),
    )


def tokens() -> tuple:
    text = torch.randint(0, 11, (3, 7))
    return text, text.roll(1, 1).flatten()


def batch_norms(**options: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6, **options), nn.Linear(6, 5))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple]]] = {
    "dropout": (lambda: nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.3), nn.Linear(24, 5)), dense),
    "dropout-inplace": (
        lambda: nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.3, inplace=True), nn.Linear(24, 5)),
        dense,
    ),
    "alpha-dropout": (
        lambda: nn.Sequential(nn.Linear(12, 24), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(24, 5)),
        dense,
    ),
    "rrelu": (lambda: nn.Sequential(nn.Linear(12, 24), nn.RReLU(), nn.Linear(24, 5)), dense),
    "batch-norm": (batch_norms, dense),
    "batch-norm-no-statistics": (lambda: batch_norms(track_running_stats=False), dense),
    "batch-norm-not-affine": (lambda: batch_norms(affine=False), dense),
    "convolutions": (convolutions, image),
    "convolutions-channels-last": (
        lambda: convolutions().to(memory_format=torch.channels_last),
        channels_last,
    ),
    "layer-norm-gelu": (
        lambda: nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5)),
        dense,
    ),
    "attention": (SelfAttention, sequence),
    "attention-dropout": (lambda: SelfAttention(dropout=0.2), sequence),
    "causal": (CausalAttention, sequence),
    "causal-dropout": (lambda: CausalAttention(0.2), sequence),
    "transformer": (lambda: transformer(0.0), sequence),
    "transformer-dropout": (lambda: transformer(0.1), sequence),
    "lstm": (lambda: recurrent(nn.LSTM), narrow_sequence),
    "lstm-two-layers-dropout": (
        lambda: recurrent(nn.LSTM, num_layers=2, dropout=0.2),
        narrow_sequence,
    ),
    "gru": (lambda: recurrent(nn.GRU), narrow_sequence),
    "rnn": (lambda: recurrent(nn.RNN), narrow_sequence),
    "tied": (Tied, tokens),
    "buffers": (RunningMean, dense),
}


@pytest.mark.parametrize("optimizer", [adamw, momentum])
@pytest.mark.parametrize("case", CASES)
def test_layer_leaves_the_bits_of_eager(case: str, optimizer: Any) -> None:
    make_model, make_batch = CASES[case]
    check_training(make_model(), optimizer, F.cross_entropy, [make_batch() for _ in range(3)])


def test_buffers_are_written_after_the_gradients() -> None:
    """The late form: nothing persistent is written before the last backward operator has run, and
    batch-norm's statistics are not written where the forward pass computes them."""
    captured, _ = check_training(convolutions(), momentum, F.cross_entropy, [image()] * 2)
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

    check_training(Permuted(), momentum, None, [(torch.randn(4, 5, 6),) for _ in range(3)])
