"""Rows: averages of the weights, what may change between the steps, and steps that are alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.optim import lr_scheduler, swa_utils

import laneway
from support.support_table import Group
from support.trial import Trial, adamw, sgd, step_of
from support_rows.steps import batches, net, plain

AVERAGES = Group(
    "Averages of the weights",
    "The averaged model is a module of the trained one, so that its tensors are the job's.",
)
BETWEEN = Group("Between the steps")
ALIKE = Group("Steps that are made like another")


def with_ema(trial: Trial, make: Callable[[nn.Module], Any]) -> None:
    class Averaged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = plain()
            self.average = make(self.net)
            self.average.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        model.average.update_parameters(model.net)
        return loss

    trial.train(
        Averaged, batches(4), None, lambda m: torch.optim.SGD(m.net.parameters(), lr=0.1), closure
    )


class HandMade(nn.Module):
    """An exponential average written by hand."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.copy = copy.deepcopy(net)

    @torch.no_grad()
    def update_parameters(self, net: nn.Module) -> None:
        for mine, theirs in zip(self.copy.parameters(), net.parameters()):
            mine.lerp_(theirs, 0.1)


AVERAGES.each(
    {
        "an exponential moving average by hand": HandMade,
        "AveragedModel, moving average": lambda net: swa_utils.AveragedModel(
            net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)
        ),
        "AveragedModel, equal weights (SWA)": swa_utils.AveragedModel,
    },
    with_ema,
)


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 1, 0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 2]),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.7),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda n: 0.5**n),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.9),
    "LinearLR": lr_scheduler.LinearLR,
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=2),
    "PolynomialLR": lr_scheduler.PolynomialLR,
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2),
    "OneCycleLR, which moves the momentum too": lambda o: lr_scheduler.OneCycleLR(
        o, 0.1, total_steps=6
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [1]
    ),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.01),
}


def scheduled(trial: Trial, make: Callable[[Any], Any]) -> None:
    trial.train(plain, batches(4), around=lambda model, optimizer: make(optimizer).step)


BETWEEN.each({f"scheduler {name}": make for name, make in SCHEDULERS.items()}, scheduled)


@BETWEEN("scheduler ReduceLROnPlateau")
def plateau(trial: Trial) -> None:
    def around(model: Any, optimizer: Any) -> Callable[[], None]:
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return lambda: schedule.step(1.0)

    trial.train(plain, batches(4), around=around)


def changed(trial: Trial, change: Callable[[Any, Any], None]) -> None:
    trial.train(plain, batches(3), around=lambda model, optimizer: lambda: change(model, optimizer))


BETWEEN.each(
    {
        "a hyperparameter changed": lambda m, o: o.param_groups[0].update(weight_decay=0.1),
        "the learning rate changed": lambda m, o: o.param_groups[0].update(lr=0.01),
        "layers frozen": lambda m, o: m[0].requires_grad_(False),
        "layers frozen and unfrozen in turn": lambda m, o: m[0].requires_grad_(
            not m[0].weight.requires_grad
        ),
        "a layer pruned": lambda m, o: prune.l1_unstructured(m[0], "weight", 0.5),
        "model.eval()": lambda m, o: m.eval(),
        "a parameter group added": lambda m, o: (
            o.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
            if len(o.param_groups) == 1
            else None
        ),
        "a hook added": lambda m, o: m[0].register_forward_hook(lambda _, given, out: out * 2),
        "a layer replaced by one without parameters": lambda m, o: m.__setitem__(1, nn.ReLU()),
    },
    changed,
)


@torch.no_grad()
def shrink(model: nn.Module, optimizer: Any) -> None:
    torch._foreach_mul_(optimizer.param_groups[0]["params"], 0.75)


def halve(model: nn.Module, optimizer: Any) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(0.5)


def start_again(model: nn.Module, optimizer: Any) -> None:
    model.load_state_dict({key: value / 2 for key, value in model.state_dict().items()})
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def run_in_training_mode(model: nn.Module, optimizer: Any) -> None:
    model(torch.ones(8, 12))


def step_eagerly(model: nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.ones(8, 12)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def read_and_written(trial: Trial, change: Callable[[Any, Any], Any]) -> None:
    trial.train(
        net,
        batches(4),
        make_optimizer=adamw,
        around=lambda model, optimizer: lambda: change(model, optimizer),
    )


BETWEEN.each(
    {
        "the model run, in training mode": run_in_training_mode,
        "the weights changed through .data": halve,
        "the weights changed by C code that gets a group's list (torch._foreach_mul_)": shrink,
        "a checkpoint loaded into model and optimizer": start_again,
        "the state of the optimizer cleared": lambda m, o: o.state.clear(),
        "the optimizer stepped eagerly": step_eagerly,
    },
    read_and_written,
)


@BETWEEN("batches of several sizes")
def sizes(trial: Trial) -> None:
    calls = [batches(1, size)[0] for size in (8, 8, 5, 2, 8)]
    trial.train(net, calls, make_optimizer=adamw)


@BETWEEN("other values of arguments that are no tensors")
def constants(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: Any, y: Any, smoothing: float) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=smoothing)
        loss.backward()
        optimizer.step()
        return loss

    calls = [(*batch, value) for batch, value in zip(batches(4), (0.0, 0.1, 0.0, 0.2))]
    trial.train(net, calls, None, sgd, closure)


def made_like(trial: Trial, make_second: Callable[[], nn.Module]) -> None:
    """Trains a step, and one like it with other weights and learning rate."""
    rates, like, batch = (0.1, 0.02), None, batches(1)[0]
    for seed, (make, rate) in enumerate(zip((net, make_second), rates)):
        torch.manual_seed(seed)
        twin, model = make(), make()
        model.load_state_dict(twin.state_dict())
        optimizers = [torch.optim.AdamW(m.parameters(), lr=rate) for m in (twin, model)]
        like = laneway.train_step(model, F.cross_entropy, optimizers[1], trial.service, like=like)
        for number in range(3):
            torch.manual_seed(number)
            expected = step_of(F.cross_entropy)(twin, optimizers[0], *batch)
            torch.manual_seed(number)
            trial.compare(expected, like(*batch), "loss")
        trial.compare(twin.state_dict(), like.state_dict()["model"], "model")


@ALIKE("`like=step`: the captures of a step, with other weights, rates and draws")
def like(trial: Trial) -> None:
    made_like(trial, net)


@ALIKE("`like=step` with another probability of a dropout")
def like_another(trial: Trial) -> None:
    def another() -> nn.Module:
        model = net()
        model[3].p = 0.5
        return model

    made_like(trial, another)


GROUPS = [AVERAGES, BETWEEN, ALIKE]
