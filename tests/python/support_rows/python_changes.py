"""Rows: Python state that a step changes, and what no capture sees."""

from __future__ import annotations

import contextvars
import decimal
import logging
import pickle
import queue
import random
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial, adamw
from support_rows.steps import batches, net, plain

CHANGED = Group(
    "Python in a step: what it changes",
    "Plain values (flags, numbers, strings, containers of such) become what they become in eager. "
    "What the step computes must leave it as a result or in a buffer.",
)


def warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("done", stacklevel=1)


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


def marking(trial: Trial, mark: Callable[[Any, torch.Tensor], Any]) -> None:
    """mark(parameter, x) is called of each parameter, and what it sets is kept."""

    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            mark(parameter, x)
        optimizer.step()
        return loss

    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        def take() -> None:
            for parameter, kept in zip(model.parameters(), model.kept, strict=True):
                kept.copy_(getattr(parameter, "main_grad", kept))

        return take

    trial.train(Marked, batches(3), None, closure=closure, around=around)


class Marked(nn.Sequential):
    """A classifier with a buffer for each parameter."""

    def __init__(self) -> None:
        super().__init__(*plain())
        self.kept = [torch.zeros_like(p, requires_grad=False) for p in self.parameters()]
        for number, buffer in enumerate(self.kept):
            self.register_buffer(f"kept_{number}", buffer)


def setting(parameter: Any, x: torch.Tensor) -> None:
    parameter.main_grad = parameter.grad * 2


def adding(parameter: Any, x: torch.Tensor) -> None:
    parameter.main_grad = getattr(parameter, "main_grad", 0) + parameter.grad


def of_an_argument(parameter: Any, x: torch.Tensor) -> None:
    x.seen = True


CHANGED.each(
    {
        "an attribute of a parameter: p.main_grad = p.grad * 2": setting,
        "an attribute of a parameter, added to: p.main_grad += p.grad": adding,
        "an attribute of an argument": of_an_argument,
    },
    marking,
)


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


@CHANGED("a tensor in a buffer, for the next iteration")
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


def a_queue() -> Any:
    losses: queue.SimpleQueue = queue.SimpleQueue()
    return lambda loss: losses.put(loss.detach())


def a_context_variable() -> Any:
    last: contextvars.ContextVar = contextvars.ContextVar("last")
    return lambda loss: last.set(loss.item() * 2)


def an_attribute_of_a_tensor() -> Any:
    target = torch.zeros(1)
    return lambda loss: setattr(target, "last", loss.detach())


def an_array() -> Any:
    counts = numpy.zeros(3)
    return lambda loss: counts.__setitem__(0, counts[0] + 1)


def a_hook() -> Any:
    return lambda loss: loss.register_hook(lambda gradient: gradient + 0 * loss.detach())


def a_draw() -> Any:
    return lambda loss: random.random()


def an_iterator() -> Any:
    stream: Iterator[int] = iter(range(9))
    return lambda loss: next(stream)


CHANGED.each(
    {
        "a meter that gets loss.item()": a_meter,
        "a list of losses": a_history,
        "a queue that gets the loss": a_queue,
        "a context variable": a_context_variable,
        "an attribute of a tensor outside": an_attribute_of_a_tensor,
        "a numpy array that counts": an_array,
        "a hook that holds its own tensor": a_hook,
        "text of a number: str(loss.item())": lambda: lambda loss: str(loss.item()),
        "text of a tensor: f'{loss}'": lambda: lambda loss: f"{loss}",
        "its bytes: pickle.dumps(loss)": lambda: lambda loss: pickle.dumps(loss),
        "its address: loss.data_ptr()": lambda: lambda loss: loss.data_ptr(),
        "random.random()": a_draw,
        "print()": lambda: lambda loss: print("done"),
        "a warning, under a filter 'always'": lambda: lambda loss: warn(),
        "a record of a logger": lambda: lambda loss: logging.getLogger("rows").error("done"),
        "time.perf_counter()": lambda: lambda loss: time.perf_counter(),
        "next() of an iterator outside": an_iterator,
    },
    told,
)

VERIFIED = Group(
    "Python in a step: what no capture sees",
    "State of C code. With `verify=True` iterations 1, 2, 4, 8, … also run in "
    "eager execution, on copies of the state; with `verify=N` every N-th besides. A bit that "
    "differs is raised after its iteration.",
)


class Told(nn.Sequential):
    """A classifier that keeps what it is told, in a buffer."""

    def __init__(self) -> None:
        super().__init__(*plain())
        self.register_buffer("told", torch.zeros(()))


@VERIFIED("a setting that is asked for by a call, which changes: verify=True")
def a_setting(trial: Trial) -> None:
    with decimal.localcontext() as context:

        def put(number: int) -> None:
            context.prec = number

        def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            model.told.fill_(decimal.getcontext().prec)
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


GROUPS = [CHANGED, VERIFIED]
