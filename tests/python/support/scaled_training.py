"""A training with a gradient scaler, twice: what is captured, and what runs eagerly on a copy. For
tests that compare what is left."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import laneway

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


def fused_adagrad(m: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(m.parameters(), lr=0.1, fused=True)


# The fused Adagrad of torch 2.12 and later takes the loss scale itself, that of 2.11 does not.
ADAGRAD_IS_SCALED = getattr(fused_adagrad(nn.Linear(1, 1)), "_step_supports_amp_scaling", False)
if ADAGRAD_IS_SCALED:
    OPTIMIZERS["adagrad"] = fused_adagrad


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


def start(twins: Twins, service: Any) -> Any:
    """A step whose job draws from its own generator: eager draws beside it."""
    return laneway.train_step(
        twins.model, None, twins.optimizer, service, closure=twins.closure, random="own"
    )


def state_of(step: Any) -> dict[str, Any]:
    """The step's state as eager has it: without the state of the job's generator."""
    return {key: value for key, value in step.state_dict().items() if key != "random"}
