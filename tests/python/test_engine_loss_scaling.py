"""Training with torch.amp.GradScaler through the engine: results and state are eager's, bit for
bit, steps that overflow included; the scaler's state goes out and comes back in torch's own layout;
and the user's scaler is only changed by sync_to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import laneway
from laneway.errors import InvalidInput
from support.eager import assert_same
from support.scaled_training import (
    CLOSURES,
    OPTIMIZERS,
    Twins,
    batches,
    make_model,
    make_scaler,
    plain,
    start,
    state_of,
)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make_closure", CLOSURES, ids=lambda make: make.__name__)
def test_the_engine_equals_eager(make_closure: Any, optimizer: str) -> None:
    twins = Twins(make_closure, optimizer)
    data = batches()
    random = torch.get_rng_state()
    expected = [twins.eager(batch) for batch in data]
    torch.set_rng_state(random)
    with (
        laneway.embedded("64MiB") as service,
        laneway.train_step(
            twins.model, None, twins.optimizer, service, closure=twins.closure
        ) as step,
    ):
        assert_same(expected, [step(*batch) for batch in data], "results")
        assert_same(twins.eager_state(), state_of(step), "state")
        assert twins.scaler.state_dict() == make_scaler().state_dict()
        step.sync_to(twins.model, twins.optimizer, twins.scaler)
    assert_same(twins.twin.state_dict(), twins.model.state_dict())
    assert_same(twins.twin_scaler.state_dict(), twins.scaler.state_dict())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_scaled_gradients_accumulated_over_calls_equal_eager(optimizer: str) -> None:
    """Every second call steps; an overflow in either of the two skips the update."""

    def accumulating(scaler: torch.amp.GradScaler) -> Callable[..., Any]:
        def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any, last: bool) -> Any:
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss * factor / 2).backward()
            if last:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            return loss

        return closure

    twins, data = Twins(accumulating, optimizer), batches(10, (2, 7))
    with laneway.embedded("64MiB") as service, start(twins, service) as step:
        for number, batch in enumerate(data):
            call = (*batch, number % 2 == 1)
            assert_same(twins.eager(call), step(*call), f"call {number}")
            state = state_of(step)
            del state["gradients"]
            assert_same(twins.eager_state(), state, f"call {number}")


def test_a_call_that_does_not_scale_leaves_the_scaler_as_it_is() -> None:
    def sometimes(scaler: torch.amp.GradScaler) -> Callable[..., Any]:
        scaled = plain(scaler)

        def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any, scale: bool) -> Any:
            if scale:
                return scaled(model, optimizer, x, y, factor)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return closure

    twins, data = Twins(sometimes, "adam"), batches(6, (2,))
    with laneway.embedded("64MiB") as service, start(twins, service) as step:
        for number, batch in enumerate(data):
            call = (*batch, number % 2 == 0)
            assert_same(twins.eager(call), step(*call), f"call {number}")
            assert_same(twins.eager_state(), state_of(step), f"call {number}")
        step.load_state_dict(step.state_dict())
        assert_same(twins.eager_state(), state_of(step))


@pytest.mark.parametrize("prepared", [True, False])
def test_a_scalers_state_is_taken_back(prepared: bool) -> None:
    """Into a step that was captured already, and into one that is captured later."""
    twins, data = Twins(plain, "adam"), batches(3, (1,))
    for batch in data:
        twins.eager(batch)
    state = copy.deepcopy(twins.eager_state())
    assert state["scaler"]["scale"] != make_scaler().state_dict()["scale"]
    with laneway.embedded("64MiB") as service, start(twins, service) as step:
        expected = [twins.eager(batch) for batch in data]  # draws what the job will draw
        if prepared:
            step.prepare(*data[0])
        step.load_state_dict(state)
        assert_same(state, state_of(step), "as it was loaded")
        assert_same(expected, [step(*batch) for batch in data], "results")
        assert_same(twins.eager_state(), state_of(step), "state")


def test_states_that_do_not_fit_are_refused() -> None:
    twins, data = Twins(plain, "adam"), batches(1, ())
    with laneway.embedded("64MiB") as service, start(twins, service) as step:
        with pytest.raises(InvalidInput, match="was not called yet"):
            step.sync_to(twins.model, scaler=make_scaler())
        step(*data[0])
        state = step.state_dict()
        other = {**state, "scaler": {**state["scaler"], "growth_interval": 7}}
        with pytest.raises(InvalidInput, match=r"growth_interval is 7.*captured with 2"):
            step.load_state_dict(other)
        with pytest.raises(InvalidInput, match="scaler/scale is missing"):
            step.load_state_dict({**state, "scaler": {"growth_interval": 2}})
        step.load_state_dict({"model": state["model"], "optimizer": state["optimizer"]})
        assert_same(state, step.state_dict())
        twins.scaler.set_growth_interval(3)
        step(*data[0])  # captured again
        assert step.state_dict()["scaler"]["growth_interval"] == 3


def test_a_step_without_a_scaler_takes_no_scalers_state() -> None:
    model = make_model()
    optimizer = OPTIMIZERS["adam"](model)
    batch = batches(1, ())[0][:2]
    with (
        laneway.embedded("64MiB") as service,
        laneway.train_step(model, F.cross_entropy, optimizer, service) as step,
    ):
        step(*batch)
        state = step.state_dict()
        assert "scaler" not in state
        with pytest.raises(InvalidInput, match=r"uses no torch.amp.GradScaler"):
            step.load_state_dict({**state, "scaler": make_scaler().state_dict()})
