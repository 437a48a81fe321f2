"""Shows that a step uses the present values of all Python state that it reads: attributes of
trainers, losses, modules and configurations, globals, classes, replaced methods. Each case is a job
as a user writes it, run in eager and by a service, and every bit is compared."""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import dataclasses
import enum
import functools
import math
import os
import subprocess
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net

SCALE = 1.0
args = types.SimpleNamespace(temperature=1.0)
current: contextvars.ContextVar[float] = contextvars.ContextVar("current", default=1.0)


@pytest.fixture
def service():
    with laneway.embedded("256MiB") as opened:
        yield opened


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_an_attribute_of_the_object_whose_method_the_step_is(service):
    class Trainer:
        def __init__(self) -> None:
            self.beta = 0.0
            self.model = net()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

        def iteration(self, x, y):
            self.optimizer.zero_grad()
            out = self.model(x)
            loss = F.cross_entropy(out, y) + self.beta * out.square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

    def job(lane):
        trainer = Trainer()
        train = lane.step(trainer.model, trainer.optimizer)(trainer.iteration)
        losses = []
        for number, (x, y) in enumerate(batches()):
            trainer.beta = number * 0.5
            losses.append(train(x, y))
        return losses, trainer.model

    check_equal(job, service)


def test_an_attribute_of_a_loss_that_is_called(service):
    class Focal:
        gamma = 0.0

        def __call__(self, out, y):
            entropy = F.cross_entropy(out, y, reduction="none")
            return ((1 - torch.exp(-entropy)) ** self.gamma * entropy).mean()

    def job(lane):
        model, criterion = net(), Focal()
        train = lane.train_step(model, criterion, sgd(model))
        losses = []
        for number, (x, y) in enumerate(batches()):
            criterion.gamma = float(number // 2)
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 3


def test_a_flag_of_a_module_in_an_inference(service):
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.low, self.disabled = nn.Linear(6, 6), nn.Linear(6, 6), False

        def forward(self, x):
            return self.base(x) if self.disabled else self.base(x) + self.low(x)

    def job(lane):
        model, x = Adapted(), torch.randn(3, 6)
        predict = lane.inference(model)
        found = []
        for disabled in (False, True, False, True):
            model.disabled = disabled
            found.append(predict(x))
        return found

    assert check_equal(job, service).graphs() == 2


def test_a_probability_of_a_dropout_that_is_annealed(service):
    def job(lane):
        model = net(nn.Dropout(0.5))
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses = []
        for number, (x, y) in enumerate(batches()):
            model[2].p = 0.5 / (1 + number // 2)
            losses.append(train(x, y))
        return losses, model

    check_equal(job, service)


def test_a_forward_that_is_replaced_on_the_instance_or_in_the_class(service):
    class Layer(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    def job(lane):
        model = nn.Sequential(Layer(8, 4))
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses, layer, own = [], model[0], Layer.forward
        for number, (x, y) in enumerate(batches(7)):
            if number == 2:
                layer.forward = types.MethodType(
                    lambda self, h: 2 * F.linear(h, self.weight, self.bias), layer
                )
            if number == 4:
                del layer.forward
                Layer.forward = lambda self, h: F.linear(h, self.weight)
            if number == 6:
                Layer.forward = own
            losses.append(train(x, y))
        return losses, model

    check_equal(job, service)


def helper(x):
    return x * SCALE


class Global(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 4)

    def forward(self, x):
        return helper(self.a(x)) / args.temperature


def test_globals_that_forward_and_what_it_calls_read(service):
    def job(lane):
        global SCALE
        args.temperature, SCALE = 1.0, 1.0
        model = Global()
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses = []
        for number, (x, y) in enumerate(batches()):
            args.temperature = 1.0 + number // 2
            SCALE = 3.0 if number == 4 else SCALE
            losses.append(train(x, y))
        return losses, model

    check_equal(job, service)


SCRIPT = """
import torch, laneway
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
beta = 0.0
def train(x, y):
    optimizer.zero_grad()
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, y) + beta * out.square().mean()
    loss.backward()
    optimizer.step()
    if SHOWS: print(loss)
    return loss
with laneway.embedded(pool="32MiB") as service:
    if USES:
        train = laneway.step(model, optimizer, service=service)(train)
    try:
        for number in range(4):
            beta = 0.5 * number
            loss = train(torch.ones(2, 8), torch.zeros(2, dtype=torch.long))
        print("LOSS", loss.item().hex())
    except laneway.Error as error:
        print("SAID", error)
"""


@pytest.mark.parametrize("name", ["<string>", "<stdin>", "<ipython-input-3-0f>", "/tmp/cell.py"])
def test_a_script_without_a_file(name):
    """Its globals are watched, and a refusal names the line."""
    cells = (
        f"code = {SCRIPT!r}\n"
        "for uses, shows in ((0, 0), (1, 0), (1, 1)):\n"
        "    names = {'__name__': '__main__', 'USES': uses, 'SHOWS': shows}\n"
        f"    exec(compile(code, {name!r}, 'exec'), names)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", cells], capture_output=True, text=True, env=environment, check=True
    )
    eager, served, said = [
        line for line in done.stdout.splitlines() if line[:4] in ("LOSS", "SAID")
    ]
    assert served == eager
    assert f"{os.path.basename(name)}:13 in train" in said


class Colour(enum.Enum):
    red = 1.0
    blue = 2.0


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1.0


@dataclasses.dataclass
class Config:
    factor: float = 1.0
    inner: Any = None


class Computed:
    def __init__(self) -> None:
        self.held = {"factor": 1.0}

    @property
    def factor(self):
        return self.held["factor"]


class Asked:
    def __init__(self) -> None:
        self.held = 1.0

    def __getattr__(self, name):
        if name == "factor":
            return self.held
        raise AttributeError(name)


class Shared:
    factor = 1.0


class Odd:
    """Has an equality that no one may ask."""

    __hash__ = None

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        raise AssertionError("was compared")


def closure_of_closures() -> tuple[Callable[[], float], Callable[[float], None]]:
    factor = 1.0

    def put(value):
        nonlocal factor
        factor = value

    def outer():
        return lambda: (lambda: factor)()

    return lambda: outer()(), put


def attribute(of: Any, name: str = "factor") -> tuple[Callable[[], float], Callable[[float], None]]:
    return lambda: getattr(of, name), lambda value: setattr(of, name, value)


def a_property():
    of = Computed()
    return lambda: of.factor, lambda value: of.held.update(factor=value)


def by_getattr():
    of = Asked()
    return lambda: of.factor, lambda value: setattr(of, "held", value)


def an_enum():
    held = {"colour": Colour.red}

    def put(value):
        held["colour"] = Colour.blue if value > 1 else Colour.red

    return lambda: held["colour"].value, put


def a_default_argument():
    def read(factor=[1.0]):  # noqa: B006
        return factor[0]

    return read, lambda value: read.__defaults__[0].__setitem__(0, value)


def a_class_attribute():
    Shared.factor = 1.0
    return lambda: Shared.factor, lambda value: setattr(Shared, "factor", value)


def a_weak_reference():
    of = Computed()
    reference = weakref.ref(of)
    return lambda of_=reference: of_().factor, lambda value: of.held.update(factor=value)


def a_partial():
    of = Config()
    return functools.partial(lambda of: of.factor, of), lambda value: setattr(of, "factor", value)


def a_context_variable():
    current.set(1.0)
    return lambda: current.get(), current.set


def an_environment_variable():
    os.environ["LANEWAY_TEST_FACTOR"] = "1.0"

    def put(value):
        os.environ["LANEWAY_TEST_FACTOR"] = str(value)

    return lambda: float(os.environ["LANEWAY_TEST_FACTOR"]), put


def three_objects_deep():
    of = Config(inner=argparse.Namespace(list=[{"config": Config()}]))
    read = lambda: of.inner.list[0]["config"].factor  # noqa: E731
    return read, lambda value: setattr(of.inner.list[0]["config"], "factor", value)


def a_numpy_array():
    numpy = pytest.importorskip("numpy")
    array = numpy.ones(3)
    return lambda: float(array[1]), lambda value: array.__setitem__(1, value)


def recursive():
    of = Config()
    of.inner = [of, {"again": of}]
    return lambda: of.inner[1]["again"].inner[0].factor, attribute(of)[1]


READS = {
    "a slot": lambda: attribute(Slotted()),
    "a dataclass": lambda: attribute(Config()),
    "a property": a_property,
    "__getattr__": by_getattr,
    "an enum": an_enum,
    "a closure of closures": closure_of_closures,
    "a default argument": a_default_argument,
    "a class attribute": a_class_attribute,
    "a weak reference": a_weak_reference,
    "a partial": a_partial,
    "a context variable": a_context_variable,
    "an environment variable": an_environment_variable,
    "objects in objects": three_objects_deep,
    "a numpy array": a_numpy_array,
    "objects that hold themselves": recursive,
}


def test_objects_whose_equality_raises_or_is_a_tensor(service):
    """Each call has another object, so each is captured."""

    def job(lane):
        model, held = net(), [Odd(1.0), torch.ones(2)]
        model.forward = lambda x: nn.Sequential.forward(model, x) * held[0].factor * held[1].sum()
        predict = lane.inference(model)
        found = []
        for number in range(3):
            held[:] = [Odd(1.0 + number), torch.ones(2) + number]
            found.append(predict(batches(1)[0][0]))
        return found

    check_equal(job, service)


@pytest.mark.parametrize("kind", READS)
def test_what_is_read_by(kind, service):
    """Another value is another graph, an old one is captured no more, and eager's bits come out."""

    def job(lane):
        model, (read, put) = net(), READS[kind]()

        @lane.step(model, sgd(model))
        def train(x, y):
            loss = F.cross_entropy(model(x), y) * read()
            model.zero_grad()
            loss.backward()
            return loss

        losses = []
        for (x, y), value in zip(batches(6), (1.0, 1.0, 2.0, 1.0, 2.0, float("2"))):
            put(value)
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 2


def test_the_report_counts_what_is_compared(service):
    """A plain network: of each layer that `forward` is its class's, and ReLU's one attribute."""
    model = net()
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service)
    train(*batches(1)[0])
    assert train.report()["guards"] == [5]


def test_a_number_that_is_not_a_number_is_itself(service):
    """NaN is no other value than NaN was; -0.0 is another than 0.0."""

    def job(lane):
        model, config = net(), Config()
        predict = lane.inference(model)
        model.forward = lambda x: nn.Sequential.forward(model, x) * config.factor
        found = []
        for value in (math.nan, float("nan"), 0.0, -0.0, 0.0):
            config.factor = value
            found.append(predict(batches(1)[0][0]))
        return found

    assert check_equal(job, service).graphs() == 3


def test_a_value_that_alternates_is_captured_once_for_each_value(service):
    def job(lane):
        model, config = net(), Config()
        model.forward = lambda x: nn.Sequential.forward(model, x) * config.factor
        predict = lane.inference(model)
        found = []
        for number in range(12):
            config.factor = 1.0 + number % 3
            found.append(predict(batches(1)[0][0]))
        return found

    assert check_equal(job, service).graphs() == 3


def test_a_container_without_bounds_is_refused(service):
    table = {number: 1.0 for number in range(20_000)}

    def job(lane):
        model = net()
        model.forward = lambda x: nn.Sequential.forward(model, x) * table[7]
        return lane.inference(model)(batches(1)[0][0])

    said = check_refused(job, service, "table, and containers of more than 10,000 entries")
    assert "as an argument" in said

    def remedied(lane):
        model, factor = net(), table[7]
        model.forward = lambda x: nn.Sequential.forward(model, x) * factor
        return lane.inference(model)(batches(1)[0][0])

    check_equal(remedied, service)


def test_a_state_that_two_steps_share(service):
    def job(lane):
        config, models = Config(), [net(), net()]
        for model in models:
            model.forward = functools.partial(
                lambda model, x: nn.Sequential.forward(model, x) * config.factor, model
            )
        steps = [lane.train_step(m, F.cross_entropy, sgd(m)) for m in models]
        losses = []
        for number, (x, y) in enumerate(batches()):
            config.factor = 1.0 + number // 3
            losses += [step(x, y) for step in steps]
        return losses

    check_equal(job, service)


def test_a_setting_that_is_put_back_needs_no_capture(service):
    def job(lane):
        model, config = net(), Config()
        model.forward = lambda x: nn.Sequential.forward(model, x) * config.factor
        predict = lane.inference(model)
        found = []
        for _ in range(3):
            found.append(predict(batches(1)[0][0]))
            with contextlib.ExitStack() as stack:
                config.factor = 7.0
                stack.callback(setattr, config, "factor", 1.0)
        return found

    assert check_equal(job, service).graphs() == 1
