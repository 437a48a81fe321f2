"""Shows that what a step reads of an optimizer that it does not run, or of that one's scheduler, is
eager's in every call."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import check_equal, net, trained

# What the step reads, and what the loop does before iteration n.
READS = {
    "a group's rate": (
        lambda box: box.other.param_groups[0]["lr"],
        lambda box, number: box.other.param_groups[0].update(lr=1.0 + number % 2),
    ),
    "the last rate of its scheduler": (
        lambda box: box.scheduler.get_last_lr()[0],
        lambda box, number: box.scheduler.step(),
    ),
    "an attribute of the user's": (
        lambda box: box.other.flag,
        lambda box, number: setattr(box.other, "flag", 1.0 + number % 2),
    ),
    "a default": (
        lambda box: box.other.defaults["lr"],
        lambda box, number: box.other.defaults.update(lr=1.0 + number % 2),
    ),
    "how much state it has": (
        lambda box: 1.0 + len(box.other.state),
        lambda box, number: box.other.state.update({number: 1}),
    ),
    "how many groups": (
        lambda box: float(len(box.other.param_groups)),
        lambda box, number: box.other.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    ),
}


@pytest.mark.parametrize("what", READS)
def test_each_call_is_eagers(what, service):
    read, change = READS[what]

    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(other=torch.optim.SGD(net().parameters(), lr=1.0))
        box.scheduler = torch.optim.lr_scheduler.ExponentialLR(box.other, 0.5)
        box.other.flag = 1.0

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * read(box)

        return trained(lane, loss_of, between=lambda number: change(box, number))

    check_equal(job, service)


def test_one_that_is_not_read_takes_no_capture(service):
    """Which the loop steps, and whose rate a scheduler moves."""

    def job(lane: Any) -> Any:
        beside = net()
        box = types.SimpleNamespace(other=torch.optim.AdamW(beside.parameters(), lr=0.1), on=True)
        scheduler = torch.optim.lr_scheduler.StepLR(box.other, 1)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * (1.0 if box.other is not None else 2.0)

        def between(number: int) -> None:
            beside(torch.ones(1, 8)).sum().backward()
            box.other.step()
            scheduler.step()

        return trained(lane, loss_of, between=between)

    assert check_equal(job, service).graphs() == 1
