"""Shows what a step looks at to tell whether a capture still holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from laneway.jobs.conditions import Conditions


def test_what_a_capture_takes_as_constant_is_noticed_when_it_changes() -> None:
    """The learning rate may change without a new capture; other hyperparameters, modes, frozen
    parameters and new groups may not."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
    optimizer = torch.optim.AdamW(model.parameters())
    conditions = Conditions([model], optimizer)

    def change(how: Callable[[], Any]) -> str | None:
        before = conditions.now()
        assert conditions.hold(before) and conditions.difference(before) is None
        how()
        return conditions.difference(before)

    group = optimizer.param_groups[0]
    assert change(lambda: group.update(lr=0.5)) is None
    assert "weight_decay of the optimizer or scaler is 0.5" in change(
        lambda: group.update(weight_decay=0.5)
    )
    assert "train() or eval()" in change(lambda: next(model.children()).eval())
    parameter = next(model.parameters())
    assert "require a gradient" in change(lambda: parameter.requires_grad_(False))
    new = {"params": [torch.zeros(2, requires_grad=True)]}
    assert "other groups" in change(lambda: optimizer.add_param_group(new))
    assert "other parameters" in change(lambda: group["params"].pop())
