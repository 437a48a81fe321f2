"""Rows: Python state that a step reads and changes."""

from __future__ import annotations

import math
import pathlib
import random
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial, adamw
from support_rows.steps import batches, net, plain

READ = Group(
    "Python in a step: what it reads",
    "A step's Python runs at capture. What it read is compared before each call; another value is "
    "captured once more.",
)
ARGUMENTS = Group(
    "Python in a step: float arguments that change",
    "A float argument that another call gives another value becomes an input of the graph: two "
    "captures for any number of values; where Python needs its value, one for each.",
)
CHANGED = Group(
    "Python in a step: what it changes",
    "Plain values (flags, numbers, strings, containers of such) become what they become in eager. "
    "What the step computes must leave it as a result or in a buffer.",
)


class Settings:
    factor = 1.0

    def __init__(self) -> None:
        self.factor, self.table = 1.0, {"factor": [1.0]}


def scaled(
    trial: Trial, make: Callable[[], tuple[Callable[[], Any], Callable[[float], Any]]]
) -> None:
    """make() gives what the step reads its factor with, and what the loop sets it with."""
    read: Any = None

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * read()
        loss.backward()
        optimizer.step()
        return loss

    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        nonlocal read
        values = iter((2.0, 2.0, 3.0, 1.0))
        read, put = make()
        return lambda: put(next(values))

    trial.train(plain, batches(4), None, closure=closure, around=around)


def an_attribute() -> Any:
    of = Settings()
    return lambda: of.factor, lambda value: setattr(of, "factor", value)


def a_container() -> Any:
    of = Settings()
    return lambda: of.table["factor"][0], lambda value: of.table.update(factor=[value])


def a_namespace() -> Any:
    of = types.SimpleNamespace(factor=1.0)
    return lambda: of.factor, lambda value: setattr(of, "factor", value)


def a_class_attribute() -> Any:
    class Shared:
        factor = 1.0

    return lambda: Shared.factor, lambda value: setattr(Shared, "factor", value)


def a_variable() -> Any:
    factor = 1.0

    def put(value: float) -> None:
        nonlocal factor
        factor = value

    return lambda: factor, put


def a_tensor() -> Any:
    held = [torch.ones(())]
    return lambda: held[0], lambda value: held[0].fill_(value)


def a_tensor_by_data() -> Any:
    held = torch.ones(())
    return lambda: held, lambda value: held.data.fill_(value)


def a_network() -> Any:
    beside = nn.Linear(1, 1).requires_grad_(False)
    one = torch.ones(1)
    return lambda: beside(one).square().sum(), lambda value: beside.weight.data.fill_(value)


READ.each(
    {
        "an attribute of an object": an_attribute,
        "a container in an attribute": a_container,
        "an attribute of a namespace": a_namespace,
        "an attribute of a class": a_class_attribute,
        "a variable of the function around it": a_variable,
        "a tensor outside of the model, written in place": a_tensor,
        "a tensor outside of the model, written through .data": a_tensor_by_data,
        "a network beside the step's models, moved by the loop": a_network,
    },
    scaled,
)


@READ("the probability of a dropout, annealed")
def annealed(trial: Trial) -> None:
    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        dropout = next(m for m in model.modules() if isinstance(m, nn.Dropout))
        return lambda: setattr(dropout, "p", dropout.p / 2)

    trial.train(
        lambda: nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 5)),
        batches(4),
        around=around,
    )


@READ("a layer's forward, replaced on the instance")
def replaced(trial: Trial) -> None:
    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        layer = next(m for m in model.modules() if isinstance(m, nn.Linear))
        return lambda: setattr(layer, "forward", lambda x: F.linear(x, layer.weight))

    trial.train(plain, batches(3), around=around)


@READ("a container of more than 10,000 entries")
def huge(trial: Trial) -> None:
    table = dict.fromkeys(range(10_001), 1.0)
    scaled(trial, lambda: (lambda: table[3], lambda value: None))


class FirstBatch(nn.Module):
    """Takes its scale from its first batch, and remembers that by `flag`."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.flag, self.linear = nn.Parameter(torch.ones(12)), False, nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.flag:
            with torch.no_grad():
                self.scale.copy_(1 / (x.std(0) + 1e-5))
            self.flag = True
        return self.linear(x * self.scale)


@CHANGED("a scale from the first batch, with a flag")
def first(trial: Trial) -> None:
    trial.train(FirstBatch, batches(3))


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.tables = nn.Linear(12, 5), {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) not in self.tables:
            self.tables[len(x)] = torch.arange(len(x)).float().unsqueeze(1)
        return self.linear(x) * self.tables[len(x)]


@CHANGED("a cache of tables")
def cached(trial: Trial) -> None:
    trial.train(Cached, batches(3))


class Auxiliary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.last = nn.Linear(12, 5), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.linear(x)
        return self.last + self.last.square()


@CHANGED("a tensor in a module's attribute, set before it is read")
def auxiliary(trial: Trial) -> None:
    trial.train(Auxiliary, batches(3))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(12, 5), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x) / self.calls


@CHANGED("a counter of calls that the step reads")
def counting(trial: Trial) -> None:
    trial.train(Counting, batches(3))


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.hidden = nn.Linear(12, 5), torch.zeros(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.linear(x) + self.hidden
        self.hidden = out.detach()
        return out


@CHANGED("a tensor in an attribute, for the next iteration")
def remembering(trial: Trial) -> None:
    trial.train(Remembering, batches(3))


class Buffered(Remembering):
    def __init__(self) -> None:
        super().__init__()
        del self.hidden
        self.register_buffer("hidden", torch.zeros(8, 5))


@CHANGED("the same in a buffer")
def buffered(trial: Trial) -> None:
    trial.train(Buffered, batches(3))


def told(trial: Trial, make: Callable[[], Callable[[torch.Tensor], Any]]) -> None:
    """make() gives what the step calls with its loss."""
    tell = make()

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        tell(loss)
        return loss

    trial.train(plain, batches(3), None, closure=closure)


def a_meter() -> Any:
    meter = types.SimpleNamespace(sum=0.0)
    return lambda loss: setattr(meter, "sum", meter.sum + loss.item())


def a_history() -> Any:
    history: list[float] = []
    return lambda loss: history.append(loss.item())


def a_draw() -> Any:
    return lambda loss: random.random()


def an_iterator() -> Any:
    stream: Iterator[int] = iter(range(9))
    return lambda loss: next(stream)


def by_argument(trial: Trial, use: Callable[[torch.Tensor, float], torch.Tensor]) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor, value: float) -> Any:
        optimizer.zero_grad()
        loss = use(F.cross_entropy(model(x), y), value)
        loss.backward()
        optimizer.step()
        return loss

    values = (0.25, 0.5, 0.75, 1.0)
    calls = [(*batch, value) for batch, value in zip(batches(4), values, strict=True)]
    trial.train(plain, calls, None, closure=closure)


ARGUMENTS.each(
    {
        "a factor of the loss": lambda loss, value: loss * value,
        "a convex sum": lambda loss, value: (1 - value) * loss + value * loss.square(),
        "a branch by it": lambda loss, value: loss if value > 0.6 else loss * value,
        "its text, its exponential": lambda loss, value: loss * math.exp(float(f"{value:.1f}")),
    },
    by_argument,
)


CHANGED.each(
    {
        "a meter that gets loss.item()": a_meter,
        "a list of losses": a_history,
        "text of a number: str(loss.item())": lambda: lambda loss: str(loss.item()),
        "text of a tensor: f'{loss}'": lambda: lambda loss: f"{loss}",
        "random.random()": a_draw,
        "next() of an iterator outside": an_iterator,
    },
    told,
)

VERIFIED = Group(
    "Python in a step: what no capture sees",
    "Files, the time, state of C code. With `verify=True` iterations 1, 2, 4, 8, … also run in "
    "eager execution, on copies of the state; with `verify=N` every N-th besides. A bit that "
    "differs is raised after its iteration.",
)


class Told(nn.Sequential):
    """A classifier that keeps what it is told, in a buffer."""

    def __init__(self) -> None:
        super().__init__(*plain())
        self.register_buffer("told", torch.zeros(()))


@VERIFIED("a number in a file, which changes: verify=True")
def a_file(trial: Trial) -> None:
    with tempfile.NamedTemporaryFile("w+") as file:

        def put(number: int) -> None:
            file.seek(0)
            file.write(str(number))
            file.flush()

        def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            model.told.fill_(int(pathlib.Path(file.name).read_text()))
            return loss

        def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
            put(1)
            numbers = iter((1, 2, 2, 2))
            return lambda: put(next(numbers))

        trial.train(Told, batches(4), None, closure=closure, around=around, verify=True)


@VERIFIED("dropout, batch normalisation, AdamW: verify=1")
def honest(trial: Trial) -> None:
    trial.train(net, batches(4), make_optimizer=adamw, evaluates=True, verify=1)


class Noisy(nn.Linear):
    def __init__(self) -> None:
        super().__init__(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + 0.1 * torch.randn_like(x))


@VERIFIED("a model that draws: verify=2")
def noisy(trial: Trial) -> None:
    trial.train(Noisy, batches(5), verify=2)


GROUPS = [READ, ARGUMENTS, CHANGED, VERIFIED]
