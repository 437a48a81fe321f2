"""Rows: Python state that a step reads, and float arguments."""

from __future__ import annotations

import abc
import functools
import logging
import math
import pathlib
import tempfile
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial
from support_rows.steps import batches, plain

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


def a_list_of_it() -> Any:
    held = torch.ones(2)
    return lambda: held.tolist()[0], lambda value: held.fill_(value)


def an_array_of_it() -> Any:
    held = torch.ones(2)
    return lambda: held.numpy()[0].item(), lambda value: held.fill_(value)


def a_network() -> Any:
    beside = nn.Linear(1, 1).requires_grad_(False)
    one = torch.ones(1)
    return lambda: beside(one).square().sum(), lambda value: beside.weight.data.fill_(value)


def put_together() -> Any:
    of = types.SimpleNamespace(rate_1=1.0)
    return lambda: getattr(of, f"rate_{1}"), lambda value: setattr(of, "rate_1", value)


def taken_apart() -> Any:
    of = types.SimpleNamespace(rate=1.0)
    return lambda: dict(vars(of).items())["rate"], lambda value: setattr(of, "rate", value)


def evaluated() -> Any:
    of = types.SimpleNamespace(rate=1.0)
    return lambda: eval("of.rate", {"of": of}), lambda value: setattr(of, "rate", value)


def not_there() -> Any:
    of = types.SimpleNamespace()
    return lambda: getattr(of, "rate", 4.0), lambda value: setattr(of, "rate", value)


def memory() -> Any:
    held = bytearray(4)
    return lambda: float(held[1]), lambda value: held.__setitem__(1, int(value))


def an_array() -> Any:
    held = numpy.ones(8)
    return lambda: float(held[-1]), lambda value: held.fill(value)


def a_large_array() -> Any:
    held = numpy.ones((512, 512))
    shown = held.T[::2]
    shown.flags.writeable = False
    return lambda: float(shown[0, 0]), lambda value: held.fill(value)


def an_array_of_objects() -> Any:
    held = numpy.array([None, 1.0], dtype=object)
    return lambda: held[1], lambda value: held.__setitem__(1, value)


def a_level() -> Any:
    log = logging.getLogger("laneway.rows")
    log.setLevel(logging.ERROR)
    return (
        lambda: 1.0 + log.isEnabledFor(logging.INFO),
        lambda value: log.setLevel(logging.INFO if value == 2.0 else logging.ERROR),
    )


def a_registration() -> Any:
    class Able(abc.ABC):  # noqa: B024
        pass

    of = Settings()
    return (
        lambda: 1.0 + isinstance(of, Able),
        lambda value: Able.register(Settings) if value == 3.0 else None,
    )


def a_cache() -> Any:
    of = Settings()

    @functools.lru_cache
    def doubled() -> float:
        return 2 * of.factor

    def put(value: float) -> None:
        of.factor = value
        if value != 2.0:
            doubled.cache_clear()

    return doubled, put


def compared() -> Any:
    of, other = types.SimpleNamespace(rate=1.0), types.SimpleNamespace(rate=3.0)
    return lambda: 1.0 + (of == other), lambda value: setattr(of, "rate", value)


READ.each(
    {
        "an attribute of an object": an_attribute,
        "a container in an attribute": a_container,
        "an attribute of a namespace": a_namespace,
        "an attribute of a class": a_class_attribute,
        "a variable of the function around it": a_variable,
        "a name that is put together: getattr(of, f'rate_{n}')": put_together,
        "a namespace taken apart: vars(of).items()": taken_apart,
        "text that is evaluated": evaluated,
        "an attribute that is not there at first": not_there,
        "a bytearray": memory,
        "the level of a logger": a_level,
        "isinstance() of an abstract class, something registered later": a_registration,
        "a function under lru_cache, cleared at times": a_cache,
        "namespaces that are compared: of == other": compared,
        "a tensor outside of the model, written in place": a_tensor,
        "a tensor outside of the model, written through .data": a_tensor_by_data,
        "a list of a tensor outside of the model: tolist()": a_list_of_it,
        "an array of a tensor outside of the model: numpy()": an_array_of_it,
        "a network beside the step's models, moved by the loop": a_network,
        "a numpy array, written to": an_array,
        "a large numpy array, by a read only view of a part": a_large_array,
        "an array of objects, one replaced": an_array_of_objects,
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


@READ("an attribute of a parameter")
def of_a_parameter(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        norms = [p.square().sum() * getattr(p, "decay", 0.1) for p in model.parameters()]
        loss = F.cross_entropy(model(x), y) + sum(norms)
        loss.backward()
        optimizer.step()
        return loss

    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        values = iter((0.5, 0.25, 0.25, 0.0))
        return lambda: setattr(next(model.parameters()), "decay", next(values))

    trial.train(plain, batches(4), None, closure=closure, around=around)


@READ("a layer's forward, replaced on the instance")
def replaced(trial: Trial) -> None:
    def around(model: nn.Module, optimizer: Any) -> Callable[[], Any]:
        layer = next(m for m in model.modules() if isinstance(m, nn.Linear))
        return lambda: setattr(layer, "forward", lambda x: F.linear(x, layer.weight))

    trial.train(plain, batches(3), around=around)


@READ("a function of torch, replaced in its Python module: F.softmin = other")
def of_torch(trial: Trial) -> None:
    own = F.softmin

    def kind() -> Any:
        F.softmin = own
        values = {1.0: own, 2.0: F.softmax}
        read = lambda: F.softmin(torch.tensor([1.0, 2.0]), 0)[0]  # noqa: E731
        return read, lambda value: setattr(F, "softmin", values.get(value, own))

    try:
        scaled(trial, kind)
    finally:
        F.softmin = own


def of_a_file(trial: Trial, read: Callable[[Any], float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "factor"

        def put(value: float) -> None:
            file.write_text(str(value))
            (file.parent / "two").unlink(missing_ok=True)
            if value == 2.0:
                (file.parent / "two").touch()

        put(1.0)
        scaled(trial, lambda: (lambda: read(file), put))


READ.each(
    {
        "a number in a file": lambda file: float(file.read_text()),
        "whether a file is there": lambda file: 1.0 + (file.parent / "two").exists(),
    },
    of_a_file,
)


@READ("a container of more than 10,000 entries")
def huge(trial: Trial) -> None:
    table = dict.fromkeys(range(10_001), 1.0)
    scaled(trial, lambda: (lambda: table[3], lambda value: None))


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


GROUPS = [READ, ARGUMENTS]
