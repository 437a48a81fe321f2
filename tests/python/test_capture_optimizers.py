"""A captured step leaves the same bits as eager, for every optimizer in every form.

Each case trains a small perceptron for four steps with plain PyTorch and with the captured graph
(interpreted by support/reference_executor.py), and compares loss, parameters and optimizer state
after every step.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from support.eager import check_training

FORMS = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd-decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd-nesterov": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
    "sgd-maximize": (torch.optim.SGD, {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adam-decay": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adam-amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamw-amsgrad": (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True, "betas": (0.8, 0.95)}),
}


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))


def batches(count: int = 4) -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(count)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_optimizer_leaves_the_bits_of_eager(case: str, form: str) -> None:
    make, options = CASES[case]
    check_training(
        perceptron(),
        lambda model: make(model.parameters(), **options, **FORMS[form]),
        nn.functional.cross_entropy,
        batches(),
    )
