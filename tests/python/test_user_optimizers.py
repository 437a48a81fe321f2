"""Optimizers of classes that people write: what their step() reads beside groups and state is read
as it is now, and what it changes happens or is refused."""

from __future__ import annotations

import types

import pytest
import torch
from torch.nn import functional as F

from support.both import batches, check_equal, check_refused, net


class Scaling(torch.optim.SGD):
    """Multiplies gradients by what scale() gives."""

    factor = 1.0
    _quiet = 1.0

    def __init__(self, parameters) -> None:
        super().__init__(parameters, lr=0.1)

    def scale(self) -> float:
        return self.factor

    def step(self, closure=None):
        scale = self.scale()
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(scale)
        return super().step(closure)


def _trained(lane, make, between=lambda optimizer, number: None, verify=False):
    model = net()
    optimizer = make(model.parameters())

    @lane.step(model, optimizer, verify=verify)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for number, batch in enumerate(batches()):
        between(optimizer, number)
        losses.append(train(*batch))
    return losses, model, optimizer.factor


def of_the_object():
    return Scaling, lambda optimizer, value: setattr(optimizer, "factor", value)


def of_its_class():
    class Below(Scaling):
        def scale(self):
            return type(self).kept

    Below.kept = 1.0
    return Below, lambda _, value: setattr(Below, "kept", value)


def of_a_name_with_a_dash_below():
    class Below(Scaling):
        def scale(self):
            return self._quiet

    return Below, lambda optimizer, value: setattr(optimizer, "_quiet", value)


def of_a_variable():
    settings = types.SimpleNamespace(factor=1.0)

    class Below(Scaling):
        def scale(self):
            return settings.factor

    return Below, lambda _, value: setattr(settings, "factor", value)


def of_a_list():
    class Below(Scaling):
        def __init__(self, parameters):
            super().__init__(parameters)
            self.factors = [1.0]

        def scale(self):
            return self.factors[0]

    def put(optimizer, value):
        optimizer.factors[0] = value

    return Below, put


def of_a_property():
    class Below(Scaling):
        @property
        def doubled(self):
            return 2 * self.factor

        def scale(self):
            return self.doubled

    return Below, lambda optimizer, value: setattr(optimizer, "factor", value)


READS = [
    of_the_object,
    of_its_class,
    of_a_name_with_a_dash_below,
    of_a_variable,
    of_a_list,
    of_a_property,
]


@pytest.mark.parametrize("verify", [False, 1], ids=["", "verified"])
@pytest.mark.parametrize("make", READS, ids=lambda make: make.__name__)
def test_what_it_reads_is_read_as_it_is_now(make, verify, service):
    values = (1.0, 1.0, 0.5, 0.5, 1.0, 2.0)

    def job(lane):
        kind, put = make()
        return _trained(lane, kind, lambda of, number: put(of, values[number]), verify)

    assert check_equal(job, service).graphs() == len(set(values))


class Starting(Scaling):
    """Its first step is another one."""

    started = False

    def scale(self):
        first, self.started = not self.started, True
        return 0.1 if first else 1.0


def test_a_flag_of_its_first_step(service):
    def job(lane):
        losses, model, _ = _trained(lane, Starting)
        return losses, model

    lane = check_equal(job, service)
    assert lane.graphs() == len(("first", "later"))


class Counting(Scaling):
    def scale(self):
        self.factor = self.factor + 1
        return 1 / self.factor


def test_a_counter_is_refused_and_is_as_before(service):
    kept = []

    def job(lane):
        def make(parameters):
            kept.append(Counting(parameters))
            return kept[-1]

        return _trained(lane, make)

    check_refused(job, service, "the attribute 'factor' of a Counting", "in each iteration")
    assert kept[0].factor == 1 + len(batches()) and "factor" not in vars(kept[1])


class Remembering(Scaling):
    def step(self, closure=None):
        self.norm = sum(p.grad.norm() for g in self.param_groups for p in g["params"])
        return super().step(closure)


def test_what_it_computes_and_keeps_is_refused(service):
    message = check_refused(lambda lane: _trained(lane, Remembering), service, "'norm'")
    assert "it stores what the step computes" in message


def test_a_scheduler_of_it_takes_no_capture(service):
    def job(lane):
        held = []

        def between(optimizer, number):
            if not held:
                held.append(torch.optim.lr_scheduler.StepLR(optimizer, 2))
            elif number:
                held[0].step()

        return _trained(lane, Scaling, between)

    assert check_equal(job, service).graphs() == 1
