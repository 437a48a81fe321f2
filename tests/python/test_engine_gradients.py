"""Shows that gradients which outlast a call are state of the job: micro-batches accumulated over
several calls give the bits of eager, whatever clears the gradients, and move with the state."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3))


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)


def accumulating(set_to_none: bool, clip: bool) -> Any:
    def closure(model: Any, optimizer: Any, x: Any, y: Any, last: bool) -> Any:
        loss = nn.functional.cross_entropy(model(x), y) / 3
        loss.backward()
        if last:
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
        return loss

    return closure


def first_and_last(model: Any, optimizer: Any, x: Any, y: Any, first: bool, last: bool) -> Any:
    if first:
        optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if last:
        optimizer.step()
    return loss


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
}


class Pair:
    def __init__(self, service: Any, closure: Any, optimizer: str = "adamw", **options: Any):
        self.closure = closure
        self.model, self.twin = net(), net()
        self.optimizer = OPTIMIZERS[optimizer](self.twin.parameters())
        self.step = laneway.train_step(
            self.model,
            None,
            OPTIMIZERS[optimizer](self.model.parameters()),
            service,
            closure=closure,
            **options,
        )

    def check(self, seed: int, *flags: bool) -> None:
        x, y = batch(seed)
        expected = self.closure(self.twin, self.optimizer, x, y, *flags)
        assert_same(expected.detach(), self.step(x, y, *flags), "loss")

    def check_state(self) -> None:
        state = self.step.state_dict()
        assert_same(dict(self.twin.state_dict()), state["model"], "model")
        assert_same(self.optimizer.state_dict()["state"], state["optimizer"]["state"], "optimizer")
        gradients = {name: p.grad for name, p in self.twin.named_parameters() if p.grad is not None}
        assert_same(gradients, state["gradients"], "gradients")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("clip", [True, False])
def test_micro_batches_over_several_calls_equal_eager(service, optimizer, set_to_none, clip):
    pair = Pair(service, accumulating(set_to_none, clip), optimizer)
    for seed in range(9):
        pair.check(seed, seed % 3 == 2)
        pair.check_state()


def test_the_first_call_may_clear_gradients_and_leave_the_step_to_a_later_one(service):
    pair = Pair(service, first_and_last)
    for seed in range(9):
        pair.check(seed, seed % 3 == 0, seed % 3 == 2)
        pair.check_state()


def test_a_whole_step_first_needs_to_be_told_that_gradients_are_kept(service):
    pair = Pair(service, first_and_last, keep_gradients=False)  # support/pair.py reads .grad
    pair.check(0, True, True)
    with pytest.raises(laneway.CaptureError, match="keep_gradients=True"):
        pair.step(*batch(1), False, True)
    told = Pair(service, first_and_last, keep_gradients=True)
    for seed, flags in enumerate([(True, True), (True, False), (False, False), (False, True)]):
        told.check(seed, *flags)
        told.check_state()


def test_the_sign_of_a_zero_gradient_is_eagers(service):
    class Signed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.weight * x).sum()

    def closure(model: Any, optimizer: Any, x: torch.Tensor, last: bool) -> Any:
        model(x).backward()
        gradient = model.weight.grad.clone()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        return gradient

    models = Signed(), Signed()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    step = laneway.train_step(models[0], None, optimizers[0], service, closure=closure)
    signed = torch.tensor([-0.0, 0.0, -1.0, 1.0])
    for last in (False, False, True, False, True):
        assert_same(closure(models[1], optimizers[1], signed, last), step(signed, last), "gradient")


def test_gradients_of_before_the_step_count(service):
    pair = Pair(service, accumulating(True, False))
    for model in (pair.model, pair.twin):
        nn.functional.cross_entropy(model(batch(7)[0]), batch(7)[1]).backward()
    pair.check(0, False)
    pair.check_state()
    pair.check(1, True)
    pair.check_state()


def test_parameters_without_a_gradient_are_left_alone(service):
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.used = nn.Linear(6, 3)
            self.unused = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    models = Partly(), Partly()
    closure = accumulating(True, True)
    optimizers = [torch.optim.AdamW(m.parameters(), weight_decay=0.5) for m in models]
    step = laneway.train_step(models[0], None, optimizers[0], service, closure=closure)
    for seed in range(6):
        x, y = batch(seed)
        closure(models[1], optimizers[1], x, y, seed % 2 == 1)
        step(x, y, seed % 2 == 1)
    state = step.state_dict()
    assert_same(dict(models[1].state_dict()), state["model"], "model")
    assert_same(optimizers[1].state_dict()["state"], state["optimizer"]["state"], "optimizer")


def test_kept_gradients_travel_with_the_state(service):
    pair = Pair(service, accumulating(True, False))
    pair.check(0, False)
    pair.check(1, False)
    state = copy.deepcopy(pair.step.state_dict())
    assert state["gradients"].keys() == dict(pair.twin.named_parameters()).keys()
    other = Pair(service, accumulating(True, False))
    other.check(5, False)  # so that it has a job
    other.step.load_state_dict(state)
    other.twin.load_state_dict(pair.twin.state_dict())
    for to, source in zip(other.twin.parameters(), pair.twin.parameters()):
        to.grad = source.grad.clone()
    other.check(2, True)
    other.check_state()
    # And into plain torch.
    pair.step.sync_to(pair.model, pair.step.optimizer)
    for name, parameter in pair.model.named_parameters():
        assert_same(dict(pair.twin.named_parameters())[name].grad, parameter.grad, name)
    pair.check(2, True)
    pair.step.sync_to(pair.model, pair.step.optimizer)
    assert all(parameter.grad is None for parameter in pair.model.parameters())
