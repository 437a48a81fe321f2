"""A step may decide by numbers that are the same in every iteration: they are worked out at
capture, and the step leaves the bits of eager. What depends on weights, state or chance is refused;
what depends on inputs is guarded (test_guards.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError
from support.eager import check_training
from support.trial import sgd

CAUSAL = torch.full((5, 5), float("-inf")).triu(1)


class Model(nn.Module):
    """A linear layer, and after it what each case does with a table, a buffer and a number."""

    def __init__(self, after: Callable[[Model, torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.table = torch.tensor([3, 1, 2])  # no buffer: a constant
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.after = after

    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return self.after(self, self.linear(x), number).float().sum()


def branch(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.all(model.table > 0) else x * 3


def other_branch(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.all(model.table > 1) else x * 3


def slices(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[: entry.item()] for entry in model.table])


def loop(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    for _ in range(int(model.table.max())):
        x = x.tanh()
    return x


def built_in_place(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """The mask is made and changed in the step, through views of it."""
    mask = torch.zeros(3, 3)
    mask[1:].fill_(2.0)
    mask.view(-1)[0] += model.table[0]
    return x[:, : int(mask.sum() / 5)] if mask[0, 0] == 3 else x


def comparisons(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    first = model.table[0].item()
    assert first >= 3 and first > 2 and first < 4 and first <= 3 and first != 2
    return x * first if first / 2 + 1 == 2.5 else x


def like_an_input(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """What is made like an input has nothing of what it holds."""
    mask = torch.ones_like(x, dtype=torch.int64)
    mask[:, 0] = 0
    table = torch.zeros_like(model.table) + model.table
    return x[: int(mask.sum() / 8)] if table.sum() == 6 and not mask.all() else x


def literal(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """A literal is new in every iteration, so writing to it does no harm."""
    count = torch.tensor([1, 2])
    count += 1
    return x[: int(count.sum())]


@pytest.mark.parametrize(
    "after",
    [
        branch,
        other_branch,
        slices,
        loop,
        built_in_place,
        comparisons,
        like_an_input,
        literal,
    ],
)
def test_decisions_by_constants_are_those_of_eager(after: Callable[..., Any]) -> None:
    batches = [(torch.randn(8, 6), torch.tensor(2)) for _ in range(3)]
    check_training(Model(after), sgd, None, batches)


class MaskedEncoder(nn.Module):
    """torch compares the mask with the causal one to tell which attention to run."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, mask=self.mask).sum()


@pytest.mark.parametrize("mask", [CAUSAL, CAUSAL.T.contiguous()], ids=["causal", "other"])
def test_an_encoder_with_a_mask_that_the_model_holds(mask: torch.Tensor) -> None:
    batches = [(torch.randn(3, 5, 8),) for _ in range(2)]
    check_training(MaskedEncoder(mask), sgd, None, batches)


def by_weights(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return x if (model.linear.weight.sum() * 0 == 0).all() else -x


def by_state(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    model.steps += 1
    return x if model.steps < 2 else -x


def by_chance(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return x if torch.rand([]) < 0.5 else -x


def after_writing(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    model.table += 1
    return x[: model.table[1].item()]


@pytest.mark.parametrize(
    "after",
    [
        by_weights,
        by_state,
        by_chance,
        after_writing,
    ],
)
def test_decisions_by_what_changes_are_refused(after: Callable[..., Any]) -> None:
    model = Model(after)
    with pytest.raises(CaptureError, match=f"only known when it runs.* in {after.__name__}"):
        capture_train_step(model, None, sgd(model), (torch.randn(8, 6), torch.tensor(2)))


def test_a_constant_must_not_change_after_a_decision_by_it() -> None:
    """The next iteration would have to decide anew."""

    def before_writing(model: Model, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        x = x[: model.table[1].item()]
        model.table += 1
        return x

    model = Model(before_writing)
    with pytest.raises(CaptureError, match=r"after it decided by what it read.*before_writing"):
        capture_train_step(model, None, sgd(model), (torch.randn(8, 6), torch.tensor(2)))
