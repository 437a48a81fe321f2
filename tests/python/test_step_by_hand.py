"""Shows that a step without an optimizer does what its function does in eager execution, bit for
bit: updates by hand in the forms in which they are written, and gradients for an optimizer outside
of the step. Eager runs the same function, and all state is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import laneway
from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError, InvalidInput
from support.eager import assert_same

BATCHES = [torch.linspace(-1, 1, 48).reshape(8, 6).mul(k) for k in (1, 2, -1, 0.5, 3)]


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1)
    )


def minus(model: nn.Module, lr: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p -= lr * p.grad


def data_add(model: nn.Module, lr: float) -> None:
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)


def copied(model: nn.Module, lr: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p - lr * p.grad)


def foreach(model: nn.Module, lr: float) -> None:
    parameters = list(model.parameters())
    with torch.no_grad():
        torch._foreach_add_(parameters, [p.grad for p in parameters], alpha=-lr)


def decayed_and_clamped(model: nn.Module, lr: float) -> None:
    for p in model.parameters():
        p.data.mul_(1 - lr * 0.1).add_(p.grad, alpha=-lr).clamp_(-0.3, 0.3)


UPDATES = [minus, data_add, copied, foreach, decayed_and_clamped]


def training(model: nn.Module, update: Callable[..., None]) -> Callable[..., Any]:
    def train(x, lr):
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        update(model, lr)
        return loss

    return train


@pytest.mark.parametrize("update", UPDATES)
def test_updates_by_hand_equal_eagers(update, service):
    twin = net()
    train = training(twin, update)
    losses = [train(x, 0.5) for x in BATCHES]
    random = torch.get_rng_state()
    model = net()
    step = laneway.step(model, None, service=service)(training(model, update))
    assert_same([step(x, 0.5) for x in BATCHES], losses, "losses")
    expected = {"model": dict(twin.state_dict()), "optimizer": None, "random": random}
    assert_same(step.state_dict(), expected)  # gradients are no state
    step.sync_to(model)
    assert_same(dict(model.state_dict()), dict(twin.state_dict()))


@pytest.mark.parametrize("update", UPDATES)
def test_a_parameter_updated_by_hand_is_not_copied(update):
    """The writes come last and nothing waits for them, so that an iteration can be abandoned before
    them; and no parameter has a stand-in, as a running mean has."""
    model = net()
    captured = capture_train_step(
        model, None, None, (BATCHES[0], 0.5), closure=lambda m, o, x, lr: training(m, update)(x, lr)
    )
    graph = captured.graph
    clones = [node for node in graph.nodes if node.op == "aten::clone"]
    assert len(clones) == 2  # of the running mean and variance
    behind = graph.nodes[graph.first_write :]
    assert not any("mm" in node.op or "backward" in node.op for node in behind)


def test_a_write_that_is_read_again_has_eagers_order(service):
    """The weight is written, read by a second forward pass, and written again."""

    def twice(model):
        def train(x):
            losses = []
            for _ in range(2):
                model.zero_grad()
                loss = model(x).pow(2).mean()
                loss.backward()
                minus(model, 0.1)
                losses.append(loss)
            return losses

        return train

    twin = net()
    losses = [twice(twin)(x) for x in BATCHES]
    model = net()
    step = laneway.step(model, None, service=service)(twice(model))
    assert_same([step(x) for x in BATCHES], losses, "losses")
    assert_same(dict(step.state_dict()["model"]), dict(twin.state_dict()))


def test_another_rate_is_another_form(service):
    rates = [0.5, 0.5, 0.25, 0.25, 0.1]
    twin = net()
    losses = [training(twin, minus)(x, lr) for x, lr in zip(BATCHES, rates)]
    model = net()
    step = laneway.step(model, None, service=service)(training(model, minus))
    assert_same([step(x, lr) for x, lr in zip(BATCHES, rates)], losses, "losses")
    assert_same(dict(step.state_dict()["model"]), dict(twin.state_dict()))


def test_lbfgs_outside_of_a_step_that_computes_gradients(service):
    def fit(model, gradients):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
        return [optimizer.step(lambda x=x: gradients(x)).detach() for x in BATCHES[:3]]

    def evaluation(model):
        def evaluate(x):
            model.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            return loss

        return evaluate

    twin = net().double()
    BATCHES_64 = [x.double() for x in BATCHES]
    losses = fit(twin, lambda x: evaluation(twin)(x.double()))
    model = net().double()
    step = laneway.step(model, None, service=service)(evaluation(model))

    def gradients(x):
        state = {k: v.detach().clone() for k, v in model.state_dict().items()}
        step.load_state_dict({"model": state})
        loss = step(x.double())
        step.sync_to(model)
        return loss

    step.prepare(BATCHES_64[0])
    assert_same(fit(model, gradients), losses, "losses")
    assert_same(dict(model.state_dict()), dict(twin.state_dict()))


def test_keep_gradients_keeps_those_of_written_parameters(service):
    model = net()
    step = laneway.step(model, None, service=service, keep_gradients=True)(training(model, minus))
    step(BATCHES[0], 0.5)
    assert set(step.state_dict()["gradients"]) == dict(model.named_parameters()).keys()


def test_resumes_from_a_file(service, tmp_path):
    twin = net()
    losses = [training(twin, minus)(x, 0.5) for x in BATCHES]
    model = net()
    with laneway.step(model, None, service=service)(training(model, minus)) as step:
        for x in BATCHES[:2]:
            step(x, 0.5)
        step.save(tmp_path / "state")
    model = net()
    step = laneway.step(model, None, service=service)(training(model, minus))
    step.load(tmp_path / "state")
    assert_same([step(x, 0.5) for x in BATCHES[2:]], losses[2:], "losses")
    assert_same(dict(step.state_dict()["model"]), dict(twin.state_dict()))


def test_what_no_step_without_an_optimizer_can_do_is_refused(service):
    model = net()
    with pytest.raises(InvalidInput, match=r"optimizer=None.*needs closure="):
        laneway.train_step(model, F.mse_loss, None, service)

    def replaced(x):
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        for p in model.parameters():
            p.data = p.data - 0.1 * p.grad
        return loss

    with pytest.raises(CaptureError, match=r"other memory.*copy_"):
        laneway.step(model, None, service=service)(replaced)(BATCHES[0])
    step = laneway.step(model, None, service=service)(training(model, minus))
    step(BATCHES[0], 0.5)
    with pytest.raises(InvalidInput, match="'optimizer' has no state, and one state is needed"):
        step.sync_to(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(InvalidInput, match="'optimizer' has one state, and no state is needed"):
        step.load_state_dict(step.state_dict() | {"optimizer": {}})


def test_the_refusal_of_lbfgs_says_that_it_may_stay_outside(service):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(CaptureError, match="optimizer=None, and call this optimizer outside"):
        laneway.train_step(model, F.mse_loss, optimizer, service)(BATCHES[0], torch.zeros(8, 1))
