"""Training with torch.amp.GradScaler: an unmodified closure is captured however it reaches its
scaler. Model, optimizer and scaler are compared with eager after every step, bit for bit, steps
that overflow included: the update is skipped, the scale halves, and grows again after
growth_interval steps. Capture changes nothing of the user's scaler, and refuses what needs the
host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError
from support.eager import _fingerprint, assert_same
from support.reference_executor import ReferenceJob
from support.scaled_training import (
    ADAGRAD_IS_SCALED,
    CLOSURES,
    OPTIMIZERS,
    Twins,
    batches,
    held,
    make_model,
    make_scaler,
    plain,
)


@pytest.mark.parametrize("warm_up", [0, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make_closure", CLOSURES, ids=lambda make: make.__name__)
def test_a_scaled_step_equals_eager(make_closure: Any, optimizer: str, warm_up: int) -> None:
    """`warm_up` eager steps first: then the scaler has its tensors already."""
    twins = Twins(make_closure, optimizer, warm_up)
    data = batches()
    before = held(twins.scaler), _fingerprint(twins.model, twins.optimizer)
    captured = capture_train_step(
        twins.model, None, twins.optimizer, data[0], closure=twins.closure
    )
    assert_same(before, (held(twins.scaler), _fingerprint(twins.model, twins.optimizer)))
    assert "__getattribute__" not in vars(torch.amp.GradScaler)
    job = ReferenceJob(captured.slots)
    assert captured.scaler.state_dict(job.slots, job.storages) == twins.scaler.state_dict()
    scales = set()
    for number, batch in enumerate(data):
        expected, result = twins.eager(batch), job.step(captured, batch, optimizer=twins.optimizer)
        where = f"step {number}"
        assert_same(expected, result, where)
        assert_same(twins.twin.state_dict(), job.model_state(), where)
        state = job.optimizer_state(captured, twins.optimizer)
        assert_same(twins.twin_optimizer.state_dict(), state, where)
        scale = captured.scaler.state_dict(job.slots, job.storages)
        assert_same(twins.twin_scaler.state_dict(), scale, where)
        scales.add(scale["scale"])
    assert min(scales) < max(scales)


def test_other_threads_keep_their_scalers_while_a_step_is_captured() -> None:
    """A thread scales with a scaler of its own while another stands in the middle of a capture."""
    inside, done = threading.Event(), threading.Event()
    of_thread = make_scaler()
    found: list[Any] = []

    def beside() -> None:
        inside.wait()
        found.append(of_thread.scale(torch.ones(2)))
        done.set()

    scaler = make_scaler()
    inner = plain(scaler)

    def closure(*arguments: Any) -> Any:
        loss = inner(*arguments)
        inside.set()
        done.wait()
        return loss

    model, (batch,) = make_model(), batches(1, ())
    thread = threading.Thread(target=beside)
    thread.start()
    capture_train_step(model, None, OPTIMIZERS["adam"](model), batch, closure=closure)
    thread.join()
    assert_same(torch.full((2,), 2.0**10), found[0])
    assert type(of_thread._scale) is torch.Tensor and scaler._scale is None


def test_a_disabled_scaler_is_no_scaler() -> None:
    """GradScaler(enabled=False) steps any optimizer, and has no state."""
    torch.manual_seed(2)
    model, twin = make_model(), make_model()
    twin.load_state_dict(model.state_dict())
    closure = plain(torch.amp.GradScaler("cpu", enabled=False))
    optimizers = [torch.optim.Adagrad(m.parameters(), lr=0.1) for m in (model, twin)]
    data = batches(3, ())
    captured = capture_train_step(model, None, optimizers[0], data[0], closure=closure)
    assert captured.scaler is None
    job = ReferenceJob(captured.slots)
    for batch in data:
        closure(twin, optimizers[1], *batch)
        job.step(captured, batch, optimizer=optimizers[0])
    assert_same(twin.state_dict(), job.model_state())


def refuse(closure: Any, optimizer: Callable[[Any], Any], *scalers: Any) -> str:
    model = make_model()
    made = optimizer(model.parameters())
    (batch,) = batches(1, ())
    before = [held(scaler) for scaler in scalers], _fingerprint(model, made)
    with pytest.raises(CaptureError) as refusal:
        capture_train_step(model, None, made, batch, closure=closure)
    assert_same(before, ([held(scaler) for scaler in scalers], _fingerprint(model, made)))
    assert "__getattribute__" not in vars(torch.amp.GradScaler)
    return str(refusal.value)


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.Adam,
        torch.optim.SGD,
        lambda parameters: torch.optim.AdamW(parameters, foreach=True),
        pytest.param(
            lambda parameters: torch.optim.Adagrad(parameters, fused=True),
            marks=pytest.mark.skipif(ADAGRAD_IS_SCALED, reason="takes it in this torch"),
        ),
    ],
)
def test_optimizers_that_do_not_take_the_scaling_are_refused(optimizer: Any) -> None:
    scaler = make_scaler()
    message = refuse(plain(scaler), optimizer, scaler)
    assert "on the host" in message and "fused=True" in message
    assert "scaled_training.py" in message and "in closure" in message


def test_a_step_without_update_is_refused() -> None:
    scaler = make_scaler()

    def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        return loss

    fused = lambda parameters: torch.optim.Adam(parameters, fused=True)  # noqa: E731
    assert "scaler.update() behind scaler.step" in refuse(closure, fused, scaler)


def test_a_step_that_changes_the_scalers_numbers_is_refused() -> None:
    scaler = make_scaler()
    inner = plain(scaler)

    def closure(*arguments: Any) -> Any:
        scaler.set_growth_interval(5)
        return inner(*arguments)

    fused = lambda parameters: torch.optim.Adam(parameters, fused=True)  # noqa: E731
    assert "changes the scaler's growth_interval" in refuse(closure, fused, scaler)


def test_a_scaler_in_the_middle_of_an_eager_step_is_refused() -> None:
    scaler = make_scaler()
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1, fused=True)
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    fused = lambda parameters: torch.optim.Adam(parameters, fused=True)  # noqa: E731
    assert "call scaler.update() before" in refuse(plain(scaler), fused)


def test_two_scalers_are_refused() -> None:
    scalers = make_scaler(), make_scaler()

    def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        (scalers[0].scale(loss) + scalers[1].scale(loss)).backward()
        return loss

    fused = lambda parameters: torch.optim.Adam(parameters, fused=True)  # noqa: E731
    assert "two loss scalers" in refuse(closure, fused, *scalers)


def test_a_step_that_looks_at_the_scale_is_refused() -> None:
    """The usual way of telling whether a step was skipped needs the scale on the host."""
    scaler = make_scaler()
    inner = plain(scaler)

    def closure(*arguments: Any) -> Any:
        before = scaler.get_scale()
        loss = inner(*arguments)
        return loss if scaler.get_scale() >= before else -loss

    fused = lambda parameters: torch.optim.Adam(parameters, fused=True)  # noqa: E731
    assert "only known when it runs" in refuse(closure, fused, scaler)
