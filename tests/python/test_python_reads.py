"""Shows that a step uses the present values of all Python state that it reads: attributes of
trainers, losses, modules and configurations, globals, classes, replaced methods. Each case is a job
as a user writes it, run in eager and by a service, and every bit is compared."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import threading
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net, sgd

SCALE = 1.0
args = types.SimpleNamespace(temperature=1.0)


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


class Config:
    def __init__(self) -> None:
        self.factor = 1.0


def test_the_report_counts_what_is_compared(service):
    """A plain network: of each layer that `forward` is its class's, ReLU's one attribute, and the
    two functions of torch that the layers call."""
    model = net()
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service)
    train(*batches(1)[0])
    assert train.report()["guards"] == [7]


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
            config.factor = 7.0
            config.factor = float("1")
        return found

    assert check_equal(job, service).graphs() == 1


def test_a_capture_in_another_thread_and_classes_afterwards(service):
    """Its reads alone count, and the classes are what they were, also in a child of a fork."""
    config, other = Config(), Config()
    model = net()
    model.forward = lambda x: nn.Sequential.forward(model, x) * config.factor
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service)
    ended = threading.Event()

    def read_others():
        while not ended.is_set():
            assert other.factor == 1.0
            assert model.training

    reader = threading.Thread(target=read_others)
    caller = threading.Thread(target=train.capture, args=batches(1)[0])
    reader.start()
    caller.start()
    caller.join()
    ended.set()
    reader.join()
    other.factor = 2.0
    train(*batches(1)[0])
    assert train.report()["captures"]["made"] == 1
    assert "__getattribute__" not in vars(Config) | dict(vars(nn.Module))
    child = os.fork()
    if child == 0:
        os._exit(Config().factor != 1.0 or "__setattr__" in vars(Config))
    assert os.waitpid(child, 0)[1] == 0
    config.factor = 3.0
    assert train(*batches(1)[0]) is not None and train.report()["captures"]["made"] == 2


def test_what_changes_while_it_is_compared(service):
    """A call gives eager's bits, or says that the container changed."""
    config, model = {"factor": 1.0}, net()
    model.forward = lambda x: nn.Sequential.forward(model, x) * config["factor"]
    predict = laneway.inference(model, service)
    x, ended = batches(1)[0][0], threading.Event()
    expected = model(x).detach()

    def grow():
        number = 0
        while not ended.is_set():
            config[f"other {number % 50}"] = number
            config.pop(f"other {(number + 25) % 50}", None)
            number += 1

    predict(x)
    writer = threading.Thread(target=grow)
    writer.start()
    for _ in range(3):
        try:
            assert torch.equal(predict(x), expected)
        except laneway.CaptureError as error:
            assert "the step changes the dict config" in str(error)
    ended.set()
    writer.join()


def test_a_step_that_is_like_another_reads_its_own_state(service):
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.factor = net(), 1.0
            self.mask = torch.ones(4)

        def forward(self, x):
            return self.inner(x) * self.factor * self.mask

    def job(lane):
        first, second = Scaled(), Scaled()
        train = lane.train_step(first, F.cross_entropy, sgd(first))
        losses = [train(*batches(1)[0])]
        if hasattr(lane, "service"):
            other = laneway.train_step(
                second, F.cross_entropy, sgd(second), lane.service, like=train
            )
        else:
            other = lane.train_step(second, F.cross_entropy, sgd(second))
        for number, (x, y) in enumerate(batches(6)):
            losses.append(other(x, y))
            second.factor = 1.0 + number // 2
            second.mask[number % 4] = 0.5
        losses.append(train(*batches(1)[0]))
        return losses, first, second

    check_equal(job, service)
