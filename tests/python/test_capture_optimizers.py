"""A captured step leaves the same bits as eager, for optimizers with options that no row of
python/SUPPORT.md has: see support_rows/optimizers.py for all others.

Each case trains a small perceptron for some steps with plain PyTorch and with the captured graph
(interpreted by support/reference_executor.py), and compares loss, parameters and optimizer state
after every step.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import nn

from laneway.operators import number_forms
from support.eager import assert_same, check_training, eager_step

FORMS = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd-nesterov": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
    "adamw-amsgrad": (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True, "betas": (0.8, 0.95)}),
    "radam-decay": (
        torch.optim.RAdam,
        {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "radam-short-average": (torch.optim.RAdam, {"lr": 0.01, "betas": (0.8, 0.3)}),
    "asgd-averaging": (torch.optim.ASGD, {"lr": 0.01, "t0": 2.0, "weight_decay": 0.1}),
    "adafactor-clipped": (torch.optim.Adafactor, {"lr": 1e3, "d": 2.0, "eps": (1e-20, 1e-5)}),
}


WITHOUT_FUSED = (torch.optim.RAdam, torch.optim.ASGD, torch.optim.Adafactor)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))


TRAINED_ON = (torch.linspace(-1, 1, 96).view(8, 12), torch.arange(8) % 5)


def batches(count: int) -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(count)]


@pytest.mark.parametrize(
    ("case", "form"),
    [
        (case, form)
        for case, (make, _) in CASES.items()
        for form in FORMS
        if form != "fused" or make not in WITHOUT_FUSED  # torch has no such form
    ],
)
def test_optimizer_leaves_the_bits_of_eager(case: str, form: str) -> None:
    make, options = CASES[case]
    check_training(
        perceptron(),
        lambda model: make(model.parameters(), **options, **FORMS[form]),
        nn.functional.cross_entropy,
        # RAdam rectifies its steps from the sixth on.
        batches(8 if make is torch.optim.RAdam else 4),
    )


def test_an_optimizer_that_another_thread_steps_is_not_changed_by_a_capture() -> None:
    """The forms that a capture puts in the place of torch's functions are torch's for others."""
    torch.manual_seed(0)
    model, twin = perceptron(), perceptron()
    twin.load_state_dict(model.state_dict())
    for kind in WITHOUT_FUSED:
        for each, inside in ((model, number_forms.in_place), (twin, contextlib.nullcontext())):
            optimizer = kind(each.parameters(), lr=0.01)
            for _ in range(7):
                with inside:
                    eager_step(each, nn.functional.cross_entropy, optimizer, TRAINED_ON)
        assert_same(model.state_dict(), twin.state_dict(), kind.__name__)
    assert "max" not in vars(number_forms._asgd)
