"""Rows: every class of torch.optim in each of its forms."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from support.support_table import Group
from support.trial import Trial

KINDS = sorted(
    name
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind)
    and issubclass(kind, torch.optim.Optimizer)
    and kind is not torch.optim.Optimizer
)
FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True},
    "differentiable": {"differentiable": True},
    "maximize": {"maximize": True},
    "weight decay": {"weight_decay": 0.1},
}
RATES = {"SGD": 0.1, "Adadelta": 1.0, "LBFGS": 0.1}


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 5, bias=False))


class Matrices(nn.Module):
    """Muon takes matrices only."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.last = nn.Linear(8, 5, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).tanh())


class Sparse(nn.Module):
    """SparseAdam takes sparse gradients only."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 5, sparse=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.words(x.argmax(1))


def evaluated(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    """LBFGS evaluates the model itself."""

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return optimizer.step(evaluate)


def batches(count: int = 3) -> list[tuple]:
    return [(torch.randn(8, 8), torch.randint(0, 5, (8,))) for _ in range(count)]


def train(trial: Trial, name: str, warm_up: int = 0, **options: Any) -> None:
    options.setdefault("lr", RATES.get(name, 0.01))
    trial.train(
        {"Muon": Matrices, "SparseAdam": Sparse}.get(name, perceptron),
        batches(3 + warm_up),
        closure=evaluated if name == "LBFGS" else None,
        make_optimizer=lambda model: getattr(torch.optim, name)(model.parameters(), **options),
        warm_up=warm_up,
    )


MATRIX = Group("Optimizers", matrix=True)
for _kind in KINDS:
    for _form, _options in FORMS.items():
        MATRIX.add(
            f"{_kind} / {_form}",
            lambda trial, kind=_kind, options=_options: train(trial, kind, **options),
        )

MORE = Group("Optimizers with further options")
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD, momentum": ("SGD", {"momentum": 0.9}),
    "SGD, momentum, foreach": ("SGD", {"momentum": 0.9, "foreach": True}),
    "SGD, momentum, fused": ("SGD", {"momentum": 0.9, "fused": True}),
    "SGD, Nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "SGD, dampening": ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    "SGD, dampening, after one eager step": (
        "SGD",
        {"momentum": 0.9, "dampening": 0.1, "warm_up": 1},
    ),
    "Adam, amsgrad": ("Adam", {"amsgrad": True}),
    "Adam, amsgrad, foreach": ("Adam", {"amsgrad": True, "foreach": True}),
    "Adam, amsgrad, fused": ("Adam", {"amsgrad": True, "fused": True}),
    "Adam, decoupled weight decay": (
        "Adam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "AdamW, amsgrad": ("AdamW", {"amsgrad": True}),
    "NAdam, decoupled weight decay": (
        "NAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "RMSprop, momentum": ("RMSprop", {"momentum": 0.9}),
    "RMSprop, centered": ("RMSprop", {"centered": True, "momentum": 0.9}),
    "Adagrad, learning rate decay": (
        "Adagrad",
        {"lr_decay": 0.1, "initial_accumulator_value": 0.1},
    ),
    "Muon, Nesterov off": ("Muon", {"nesterov": False}),
    "AdamW, learning rate is a tensor, capturable": (
        "AdamW",
        {"lr": torch.tensor(0.01), "capturable": True},
    ),
    "AdamW, learning rate is a tensor, fused": (
        "AdamW",
        {"lr": torch.tensor(0.01), "fused": True},
    ),
    "AdamW, learning rate is a tensor": ("AdamW", {"lr": torch.tensor(0.01), "foreach": False}),
    "AdamW, betas are tensors": (
        "AdamW",
        {"betas": (torch.tensor(0.9), torch.tensor(0.99)), "foreach": False},
    ),
    "AdamW, after two eager steps": ("AdamW", {"warm_up": 2}),
    "RAdam, after six eager steps": ("RAdam", {"warm_up": 6}),
    "RAdam, after six eager steps, foreach": ("RAdam", {"warm_up": 6, "foreach": True}),
    "ASGD, averaging from its second step on": ("ASGD", {"t0": 1.0}),
}
MORE.each(OPTIONS, lambda trial, case: train(trial, case[0], **case[1]))


class Lion(torch.optim.Optimizer):
    """An optimizer of the user's own, that makes its state in its first step."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["average"] = torch.zeros_like(parameter)
                update = state["average"] * 0.9 + parameter.grad * 0.1
                parameter.add_(update.sign(), alpha=-group["lr"])
                state["average"].lerp_(parameter.grad, 0.01)


class Counting(Lion):
    """An optimizer of the user's own that counts its steps in a Python number."""

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                parameter.sub_(parameter.grad, alpha=group["lr"] / state["step"])


class Plain(torch.optim.Optimizer):
    """An optimizer of the user's own without state."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(group["lr"] * parameter.grad.sign())


@MORE("an optimizer of your own, without state")
def own_plain(trial: Trial) -> None:
    trial.train(perceptron, batches(), make_optimizer=lambda m: Plain(m.parameters(), 0.01))


@MORE("an optimizer of your own that makes state in its first step")
def own_state(trial: Trial) -> None:
    trial.train(perceptron, batches(), make_optimizer=lambda m: Lion(m.parameters(), 0.01))


@MORE("an optimizer of your own that makes state, after one eager step")
def own_state_warm(trial: Trial) -> None:
    trial.train(
        perceptron, batches(4), make_optimizer=lambda m: Lion(m.parameters(), 0.01), warm_up=1
    )


@MORE("an optimizer of your own that counts steps in a Python number, after one eager step")
def own_count(trial: Trial) -> None:
    trial.train(
        perceptron, batches(4), make_optimizer=lambda m: Counting(m.parameters(), 0.1), warm_up=1
    )


@MORE("several parameter groups, each with its own options")
def own_groups(trial: Trial) -> None:
    trial.train(
        perceptron,
        batches(),
        make_optimizer=lambda m: torch.optim.AdamW(
            [
                {"params": m[0].parameters(), "lr": 0.1, "weight_decay": 0.0},
                {"params": m[2].parameters(), "betas": (0.5, 0.9)},
            ],
            lr=0.01,
        ),
    )


@MORE("hooks before and after the optimizer's step")
def step_hooks(trial: Trial) -> None:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        @torch.no_grad()
        def halve(optimizer: Any, args: Any, kwargs: Any) -> None:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad.mul_(0.5)

        optimizer.register_step_pre_hook(halve)
        return optimizer

    trial.train(perceptron, batches(), make_optimizer=make)


def both(model: Any, optimizers: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    """A closure that steps two optimizers."""
    loss = nn.functional.cross_entropy(model(x), y)
    for each in optimizers:
        each.zero_grad()
    loss.backward()
    for each in optimizers:
        each.step()
    return loss


@MORE("two optimizers of one model, in a list")
def two_optimizers(trial: Trial) -> None:
    def make(model: nn.Module) -> list[torch.optim.Optimizer]:
        first = torch.optim.AdamW(model[2].parameters(), lr=0.01)
        return [first, torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)]

    trial.train(perceptron, batches(), make_optimizer=make, closure=both)


@MORE("two optimizers of one model, of which the step was given one")
def foreign_optimizer(trial: Trial) -> None:
    others: dict[int, Any] = {}

    def make(model: nn.Module) -> torch.optim.Optimizer:
        others[id(model)] = torch.optim.SGD(model[0].parameters(), lr=0.1)
        return torch.optim.AdamW(model[2].parameters(), lr=0.01)

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        return both(model, (optimizer, others[id(model)]), x, y)

    trial.train(perceptron, batches(), make_optimizer=make, closure=closure)


@MORE("no optimizer: the step updates the weights by hand")
def by_hand(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        return loss

    trial.train(perceptron, batches(), make_optimizer=lambda model: None, closure=closure)


@MORE("no optimizer: the step leaves gradients")
def gradients(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss, *(parameter.grad for parameter in model.parameters())

    trial.train(
        perceptron, batches(), make_optimizer=lambda model: None, closure=closure, learns=False
    )


GROUPS = [MATRIX, MORE]
