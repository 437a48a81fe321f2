"""A closure may use model, optimizer and scaler that it knows from outside instead of the ones that
it is given: they are the same for the time of the capture. What is left is compared with eager, bit
for bit, and the user's optimizer is as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError
from support.eager import _fingerprint, assert_same
from support.reference_executor import ReferenceJob

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "scaled": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
}


class Script:
    """A training as a script has it: everything global."""

    def __init__(self, optimizer: str) -> None:
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.scaler = torch.amp.GradScaler("cpu", enabled=optimizer == "scaled")

    def closure(self, model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


def batches(count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(count)]


def twins(optimizer: str) -> tuple[Script, Script]:
    torch.manual_seed(1)
    script = Script(optimizer)
    twin = Script(optimizer)
    twin.model.load_state_dict(script.model.state_dict())
    return script, twin


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_optimizer_from_outside_is_the_one_that_is_captured(optimizer: str) -> None:
    script, twin = twins(optimizer)
    data = batches()
    attributes, before = script.optimizer.__dict__, _fingerprint(script.model, script.optimizer)
    values = copy.copy(attributes)
    captured = capture_train_step(
        script.model, None, script.optimizer, data[0], closure=script.closure
    )
    assert script.optimizer.__dict__ is attributes and attributes == values
    assert_same(before, _fingerprint(script.model, script.optimizer))
    job = ReferenceJob(captured.slots)
    for batch in data:
        twin.closure(None, None, *batch)
        job.step(captured, batch, optimizer=script.optimizer)
        assert_same(twin.model.state_dict(), job.model_state())
        state = job.optimizer_state(captured, script.optimizer)
        assert_same(twin.optimizer.state_dict(), state)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_engine_equals_eager(optimizer: str) -> None:
    script, twin = twins(optimizer)
    data = batches()
    with (
        laneway.embedded("64MiB") as service,
        laneway.train_step(
            script.model, None, script.optimizer, service, closure=script.closure
        ) as step,
    ):
        for batch in data:
            assert_same(twin.closure(None, None, *batch).detach(), step(*batch))
        state = step.state_dict()
    assert_same(twin.model.state_dict(), state["model"])
    assert_same(twin.optimizer.state_dict(), state["optimizer"])


def test_a_refusal_leaves_the_optimizer_as_it_was() -> None:
    script, _ = twins("adam")
    attributes, values = script.optimizer.__dict__, copy.copy(script.optimizer.__dict__)

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = script.closure(model, optimizer, x, y)
        return loss if loss > 0 else -loss

    with pytest.raises(CaptureError, match=r"torch\.where"):
        capture_train_step(script.model, None, script.optimizer, batches(1)[0], closure=closure)
    assert script.optimizer.__dict__ is attributes and attributes == values
