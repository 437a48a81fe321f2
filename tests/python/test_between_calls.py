"""What the loop does between the calls of a step: it reads and sets a GradScaler, changes objects
that it passes, shares states of optimizers. And what hooks do with optimizers of their own."""

import argparse
import copy
import dataclasses
import enum
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import Served, batches, check_equal, check_refused, net
from support.eager import assert_same


def scaled(lane, model, optimizer, scaler):
    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        seen = model[0].weight.grad.abs().sum()
        scaler.step(optimizer)
        scaler.update()
        return loss, seen

    return train


def test_a_scale_is_read_between_the_calls(service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        train = scaled(lane, model, optimizer, scaler)
        data, log = batches(8), []
        data[3][0].fill_(float("inf"))
        for x, y in data:
            before = scaler.get_scale()
            loss, _ = train(x, y)
            if scaler.get_scale() >= before:
                schedule.step()
            log += [loss.clone(), optimizer.param_groups[0]["lr"], dict(scaler.state_dict())]
        return log, model

    check_equal(job, service)


@pytest.mark.parametrize("how", ["update", "load_state_dict", "an eager iteration"])
def test_a_scale_is_set_between_the_calls(how, service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        train, log = scaled(lane, model, optimizer, scaler), []
        for number, (x, y) in enumerate(batches(7)):
            if number == 3 and how == "update":
                scaler.update(2.0**4)
            if number == 3 and how == "load_state_dict":
                scaler.load_state_dict(scaler.state_dict() | {"scale": 32.0, "_growth_tracker": 1})
            if number == 3 and how == "an eager iteration":
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
            log.append(train(x, y))
        return log, model, scaler.state_dict()

    check_equal(job, service)


def test_a_scaler_has_its_own_methods_again_after_the_step():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    names = set(vars(scaler))
    with laneway.embedded("64MiB") as service:
        train = scaled(Served(service), model, optimizer, scaler)
        train(*batches(1)[0])
        assert set(vars(scaler)) > names
        train.close()
    assert set(vars(scaler)) == names
    assert scaler.get_scale() == 2.0**11


class Kind(enum.Enum):
    plain = 1
    doubled = 2


@dataclasses.dataclass
class Settings:
    scale: float = 1.0
    inner: dict = dataclasses.field(default_factory=lambda: {"list": [1.0]})


class Slotted:
    __slots__ = ("scale", "inner")

    def __init__(self):
        self.scale, self.inner = 1.0, {"list": [1.0]}


class Equal(Slotted):
    """Says that it is equal to all, and raises when it is asked for its truth."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("do not compare me")

    def __call__(self, out):
        return out * self.scale


MAKES = {
    "namespace": lambda: argparse.Namespace(scale=1.0, inner={"list": [1.0]}),
    "dataclass": Settings,
    "slots": Slotted,
    "equality that raises": Equal,
    "an object with itself in it": lambda: _knotted(Settings()),
}


def _knotted(settings):
    settings.inner["self"] = settings
    return settings


@pytest.mark.parametrize("make", MAKES)
def test_an_argument_that_is_changed_in_place_is_read_anew(make, service):
    def job(lane):
        settings, model = MAKES[make](), net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x, y, settings):
            optimizer.zero_grad()
            out = model(x) * settings.scale * settings.inner["list"][0]
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for number, (x, y) in enumerate(batches(7)):
            if number == 2:
                settings.scale = 0.5
            if number == 4:
                settings.inner["list"][0] = 3.0
            if number == 5:
                settings.scale, settings.inner["list"] = 1.0, [1.0]
            losses.append(train(x, y, settings).clone())
        return losses, model

    check_equal(job, service)


def test_an_argument_that_comes_back_is_found_again_and_an_equal_one_is_the_same():
    model = net()
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(model, service, closure=lambda own, x, s: own(x) * s.scale)
        x = batches(1)[0][0]
        settings = argparse.Namespace(scale=1.0, kind=Kind.plain, nan=float("nan"))
        for scale in (1.0, 2.0, 1.0, 2.0):
            settings.scale = scale
            predict(x, settings)
        predict(x, argparse.Namespace(**(vars(settings) | {"nan": settings.nan})))
        assert predict._variants.counts()["made"] == 2
        settings.kind = Kind.doubled
        predict(x, settings)
        assert predict._variants.counts()["made"] == 3


def test_an_argument_that_holds_too_much_is_refused():
    settings = types.SimpleNamespace(scale=2.0, table=[[i] for i in range(5000)])
    model, x = net(), batches(1)[0][0]
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(model, service, closure=lambda own, x, s: own(x) * s)
        with pytest.raises(laneway.CaptureError, match="argument 1 holds more than 4096 objects"):
            predict(x, settings)
        assert_same(model(x) * 2.0, predict(x, settings.scale))


@pytest.mark.parametrize("copies", [False, True])
def test_optimizers_that_share_their_state_are_refused_and_copies_are_not(copies, service):
    def job(lane):
        models = [net(), net()]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]
        steps = [
            lane.train_step(m, F.cross_entropy, o) for m, o in zip(models, optimizers, strict=True)
        ]
        losses = []
        for number, (x, y) in enumerate(batches()):
            losses += [step(x, y).clone() for step in steps]
            if number == 2:
                state = optimizers[0].state_dict()
                optimizers[1].load_state_dict(copy.deepcopy(state) if copies else state)
        return losses, models, optimizers

    if copies:
        check_equal(job, service)
    else:
        words = ("shares tensors with that of another optimizer", "deepcopy")
        check_refused(job, service, *words, error=laneway.InvalidInput)


def test_lists_of_parameters_that_are_added_are_up_to_date(service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train, sums = lane.train_step(model, F.cross_entropy, optimizer), []
        for number, (x, y) in enumerate(batches(8)):
            train(x, y)
            own = optimizer.param_groups[0]
            made = [
                lambda own: [] + own["params"],
                lambda own: own["params"] + [],
                lambda own: own["params"] * 1,
                lambda own: list(reversed(own["params"])),
            ][number % 4](own)
            sums += [parameter.sum() for parameter in made]
        return sums

    check_equal(job, service)


def test_an_optimizer_for_each_parameter_steps_in_a_hook(service):
    def job(lane):
        model = net()
        optimizers = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}

        def hook(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(hook)

        @lane.step(model, list(optimizers.values()))
        def train(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses = [train(x, y).clone() for x, y in batches()]
        assert all(isinstance(key, nn.Parameter) for key in optimizers) and len(optimizers) == 4
        return losses, model

    check_equal(job, service)


@pytest.mark.parametrize("how", ["jvp", "hessian"])
def test_forward_mode_is_refused_and_reverse_mode_is_not(how, service):
    part = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    def job(lane, reverse=False):
        model = copy.deepcopy(part)
        plain = lambda x: model(x).sum()  # noqa: E731

        def derivative(x):
            if how == "hessian":
                made = torch.func.jacrev if reverse else torch.func.jacfwd
                return made(torch.func.jacrev(plain))(x)
            if reverse:
                return torch.func.vjp(plain, x)[1](torch.ones(()))[0]
            return torch.func.jvp(plain, (x,), (torch.ones_like(x),))[1]

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x):
            optimizer.zero_grad()
            loss = derivative(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return [train(torch.linspace(-1, n, 12).reshape(2, 6)) for n in range(3)], model

    check_refused(job, service, "forward-mode derivative", "reverse mode")
    check_equal(lambda lane: job(lane, reverse=True), service)
