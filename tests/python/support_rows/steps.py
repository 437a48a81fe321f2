"""Rows: what one step may do between the batch and the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

from support.support_table import Group
from support.trial import Trial, adamw, sgd

CLOSURES = Group("What a step may do", "As `closure(model, optimizer, *inputs)` unless said.")


def net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 5)
    )


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 5))


def batches(count: int = 3, size: int = 8) -> list[tuple]:
    return [(torch.randn(size, 12), torch.randint(0, 5, (size,))) for _ in range(count)]


def closure_row(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A row that trains with the decorated closure."""

    def add(closure: Callable[..., Any]) -> Callable[..., Any]:
        CLOSURES.add(
            name,
            lambda trial: trial.train(net, batches(), None, adamw, closure, **options),
        )
        return closure

    return add


@CLOSURES("loss_fn: forward, backward, step")
def default(trial: Trial) -> None:
    trial.train(net, batches())


@CLOSURES("loss_fn returns (loss, auxiliary results)")
def auxiliary(trial: Trial) -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> Any:
        right = (output.argmax(1) == target).float().mean()
        return F.cross_entropy(output, target), {"accuracy": right, "output": output}, "note"

    trial.train(net, batches(), loss_fn)


@CLOSURES("the model returns its own loss (loss_fn None)")
def own_loss(trial: Trial) -> None:
    class WithLoss(nn.Linear):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            logits = super().forward(x)
            return {"loss": F.cross_entropy(logits, y), "logits": logits}

    trial.train(lambda: WithLoss(12, 5), batches(), None)


@CLOSURES("keywords and nested inputs")
def nested(trial: Trial) -> None:
    class Nested(nn.Linear):
        def forward(self, batch: dict[str, Any], scale: float = 1.0) -> torch.Tensor:
            return F.cross_entropy(super().forward(batch["x"][0]) * scale, batch["y"])

    calls = [{"batch": {"x": [x], "y": y}, "scale": 0.5} for x, y in batches()]
    trial.train(lambda: Nested(12, 5), calls, None)


@closure_row("clipping by norm")
def clip_norm(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return loss, norm


@closure_row("clipping by norm, foreach")
def clip_foreach(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=1.0, foreach=True)
    optimizer.step()
    return loss


@closure_row("clipping by norm that raises on NaN (error_if_nonfinite)")
def clip_checked(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True)
    optimizer.step()
    return loss


@closure_row("clipping by value")
def clip_value(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return loss


@closure_row("micro-batches in one call")
def halves(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(2), y.chunk(2)):
        loss = F.cross_entropy(model(part), target) / 2
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


def accumulating(set_to_none: bool) -> Callable[..., Any]:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor, last: bool) -> Any:
        loss = F.cross_entropy(model(x), y) / 2
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
        return loss

    return closure


def accumulated(trial: Trial, set_to_none: bool) -> None:
    calls = [(*batch, number % 2 == 1) for number, batch in enumerate(batches(6))]
    trial.train(net, calls, None, adamw, accumulating(set_to_none))


CLOSURES.each(
    {
        "micro-batches over several calls (kept gradients)": True,
        "micro-batches over several calls, zero_grad(set_to_none=False)": False,
    },
    accumulated,
)


@closure_row("autocast, bfloat16")
def autocast(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@closure_row("autocast, float16")
def autocast_half(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def scaled(trial: Trial, options: dict[str, Any]) -> None:
    scalers: dict[int, torch.amp.GradScaler] = {}

    def make(model: nn.Module) -> torch.optim.Optimizer:
        scalers[id(model)] = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        return torch.optim.AdamW(model.parameters(), lr=0.01, **options)

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        scaler = scalers[id(model)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    trial.train(plain, batches(4), None, make, closure)


CLOSURES.each(
    {
        "GradScaler, fused optimizer": {"fused": True},
        "GradScaler, optimizer that is not fused": {},
    },
    scaled,
)


@closure_row("several losses, several backward passes")
def several(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    output = model(x)
    first, second = F.cross_entropy(output, y), output.square().mean()
    first.backward(retain_graph=True)
    (0.1 * second).backward()
    optimizer.step()
    return first, second


@closure_row("gradients by torch.autograd.grad")
def by_grad(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    loss = F.cross_entropy(model(x), y)
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient
    optimizer.step()
    return loss


@closure_row("a penalty on gradients (second order)")
def penalty(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(model(x), y)
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + gradient.square().sum()).backward()
    optimizer.step()
    return loss


@closure_row("two optimizer steps in one call")
def twice(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(model(x), y))
        losses[-1].backward()
        optimizer.step()
    return tuple(losses)


@closure_row("sharpness-aware: weights moved and put back")
def sharpness(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        moves = [p.grad * 0.05 for p in model.parameters()]
        for parameter, move in zip(model.parameters(), moves):
            parameter.add_(move)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves):
            parameter.sub_(move)
    optimizer.step()
    return loss


@closure_row("weights changed by hand, without an optimizer's step")
def by_hand(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    optimizer.zero_grad()
    return loss


@closure_row("noise added to gradients")
def noisy(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.add_(torch.randn_like(parameter.grad), alpha=0.01)
    optimizer.step()
    return loss


@closure_row("per-sample gradients by torch.func")
def per_sample(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    from torch.func import functional_call, grad, vmap

    weights = {name: p.detach() for name, p in model[4].named_parameters()}
    hidden = model[:4](x).detach()

    def loss_of(weights: dict, row: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model[4], weights, (row,)), label)

    gradients = vmap(grad(loss_of), (None, 0, 0))(weights, hidden, y)
    optimizer.zero_grad()
    for name, parameter in model[4].named_parameters():
        parameter.grad = gradients[name].mean(0)
    optimizer.step()
    return gradients["weight"].norm()


@closure_row("only some parameters get a gradient")
def partly(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(inputs=[model[4].weight])
    optimizer.step()
    return loss


@closure_row("train() and eval() in the closure")
def modes(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    model.eval()
    with torch.no_grad():
        before = F.cross_entropy(model(x), y)
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss, before


@CLOSURES("scheduler.step() inside the closure")
def inner_schedule(trial: Trial) -> None:
    schedules: dict[int, Any] = {}

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = sgd(model)
        schedules[id(model)] = lr_scheduler.ExponentialLR(optimizer, 0.5)
        return optimizer

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedules[id(model)].step()
        return loss

    trial.train(plain, batches(), None, make, closure)


@closure_row("weights changed by hand through .data")
def through_data(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad.data, alpha=-0.1)
    optimizer.zero_grad()
    return loss


@closure_row("weights given new tensors through .data")
def data_replaced(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    for parameter in model.parameters():
        parameter.data = parameter.data - 0.1 * parameter.grad
    optimizer.zero_grad()
    return loss


@closure_row("returns loss.item()")
def item(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@closure_row("prints the loss")
def printed(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    f"{loss.item():.3f}"
    return loss


GROUPS = [CLOSURES]
