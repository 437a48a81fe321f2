"""Training with torch.amp.GradScaler: an unmodified closure gives eager's bits, steps that overflow
included: the update is skipped, the scale halves, and grows again after growth_interval steps.
Model, optimizer and scaler are compared with eager after every step, in the reference executor and
through the engine. The user's scaler is never changed.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture import capture_train_step
from laneway.errors import CaptureError, InvalidInput
from support.eager import _fingerprint, assert_same
from support.reference_executor import ReferenceJob

WIDTH, CLASSES = 8, 5
OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, fused=True),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, fused=True),
    "nesterov": lambda m: torch.optim.SGD(
        m.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True
    ),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, fused=True),
    "amsgrad": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, amsgrad=True, fused=True),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, fused=True),
}


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Dropout(0.25), nn.Linear(16, CLASSES))


def make_scaler(**options: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, **options)


def batches(count: int = 6, overflow: tuple[int, ...] = (2, 5)) -> list[tuple]:
    """Batches of which some give infinite gradients. Not the first: torch leaves the momentum of a
    fused SGD uninitialised when its first step is skipped."""
    made = []
    for number in range(count):
        x, y = torch.randn(4, WIDTH), torch.randint(0, CLASSES, (4,))
        factor = torch.tensor(float("inf") if number in overflow else 1.0)
        made.append((x, y, factor))
    return made


def plain(scaler: torch.amp.GradScaler) -> Callable[..., Any]:
    def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return closure


def clipped(scaler: torch.amp.GradScaler) -> Callable[..., Any]:
    def closure(model: Any, optimizer: Any, x: Any, y: Any, factor: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss * factor).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return loss, norm

    return closure


def in_autocast(scaler: torch.amp.GradScaler) -> Callable[..., Any]:
    class Trainer:
        """Reaches its scaler through an attribute."""

        def __init__(self) -> None:
            self.scaler = scaler

        def __call__(self, model: Any, optimizer: Any, x: Any, y: Any, factor: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(x), y) * factor
            losses = self.scaler.scale([loss.float(), loss.float() * 2])
            (losses[0] + losses[1]).backward()
            self.scaler.step(optimizer)
            self.scaler.update()
            return loss, self.scaler.get_scale()

    return Trainer()


CLOSURES = [plain, clipped, in_autocast]


class Twins:
    """The same training twice: what is captured, and what runs eagerly on a copy of it."""

    def __init__(self, make_closure: Any, optimizer: str, warm_up: int = 0) -> None:
        torch.manual_seed(1)
        self.model = make_model()
        self.twin = copy.deepcopy(self.model)
        self.optimizer = OPTIMIZERS[optimizer](self.model)
        self.twin_optimizer = OPTIMIZERS[optimizer](self.twin)
        self.scaler, self.twin_scaler = make_scaler(), make_scaler()
        self.closure = make_closure(self.scaler)
        self.twin_closure = make_closure(self.twin_scaler)
        for batch in batches(warm_up, ()):
            random = torch.get_rng_state()
            self.closure(self.model, self.optimizer, *batch)
            torch.set_rng_state(random)
            self.eager(batch)

    def eager(self, batch: tuple) -> Any:
        result = self.twin_closure(self.twin, self.twin_optimizer, *batch)
        return torch.utils._pytree.tree_map(
            lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, result
        )

    def eager_state(self) -> dict[str, Any]:
        return {
            "model": self.twin.state_dict(),
            "optimizer": self.twin_optimizer.state_dict(),
            "scaler": self.twin_scaler.state_dict(),
        }


def held(scaler: torch.amp.GradScaler) -> dict[str, Any]:
    """Everything that a scaler holds, its tensors by content."""
    return copy.deepcopy(scaler.__dict__)


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
        assert_same(twins.eager_state(), step.state_dict(), "state")
        assert twins.scaler.state_dict() == make_scaler().state_dict()
        step.sync_to(twins.model, twins.optimizer, twins.scaler)
    assert_same(twins.twin.state_dict(), twins.model.state_dict())
    assert_same(twins.twin_scaler.state_dict(), twins.scaler.state_dict())


def start(twins: Twins, service: Any) -> Any:
    return laneway.train_step(twins.model, None, twins.optimizer, service, closure=twins.closure)


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
        assert_same(state, step.state_dict(), "as it was loaded")
        assert_same(expected, [step(*batch) for batch in data], "results")
        assert_same(twins.eager_state(), step.state_dict(), "state")


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
        lambda parameters: torch.optim.Adagrad(parameters, fused=True),
    ],
)
def test_optimizers_that_do_not_take_the_scaling_are_refused(optimizer: Any) -> None:
    scaler = make_scaler()
    message = refuse(plain(scaler), optimizer, scaler)
    assert "on the host" in message and "fused=True" in message
    assert "test_capture_loss_scaling.py" in message and "in closure" in message


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
