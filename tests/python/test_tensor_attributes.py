"""Attributes that users give tensors: what a step reads and sets of them is as in eager, or is
refused. Each case is a job as a user writes it."""

from __future__ import annotations

import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net, sgd, trained


def rates(lane):
    """A factor of each parameter's own, of which some have none at first."""
    model = net()
    model[0].weight.factor = 0.5

    def between(number):
        if number == 2:
            model[0].weight.factor = 2.0
        if number == 3:
            model[2].bias.factor = 3.0
        if number == 4:
            del model[0].weight.factor

    def loss_of(model, x, y):
        norm = sum(p.square().sum() * getattr(p, "factor", 1.0) for p in model.parameters())
        return F.cross_entropy(model(x), y) + 0.01 * norm

    return trained(lane, loss_of, model, between, count=6)


def asked_by_hasattr(lane):
    model = net()

    def between(number):
        if number == 2:
            model[0].bias.is_left_out = True

    def loss_of(model, x, y):
        kept = [p for p in model.parameters() if not hasattr(p, "is_left_out")]
        return F.cross_entropy(model(x), y) + 0.01 * sum(p.square().sum() for p in kept)

    return trained(lane, loss_of, model, between)


def asked_by_an_exception(lane):
    model = net()

    def factor(p):
        try:
            return p.factor
        except AttributeError:
            return 1.0

    def between(number):
        if number == 2:
            model[0].bias.factor = 0.25

    def loss_of(model, x, y):
        norm = sum(p.square().sum() * factor(p) for p in model.parameters())
        return F.cross_entropy(model(x), y) + 0.01 * norm

    return trained(lane, loss_of, model, between)


def a_buffer_of_a_mask(lane):
    """A tensor in an attribute of a parameter, written by the loop."""
    model = net()
    model[0].weight.mask = torch.ones(16, 8)

    def between(number):
        model[0].weight.mask[number] = 0.0

    def loss_of(model, x, y):
        weight = model[0].weight * model[0].weight.mask
        return F.cross_entropy(model[2](F.linear(x, weight, model[0].bias).relu()), y)

    return trained(lane, loss_of, model, between)


@pytest.mark.parametrize(
    "job", [rates, asked_by_hasattr, asked_by_an_exception, a_buffer_of_a_mask]
)
def test_what_the_step_reads_of_a_parameter(job, service):
    check_equal(job, service)


def test_what_nobody_asks_for_takes_one_graph(service):
    def job(lane):
        model = net()

        def between(number):
            model[0].weight.seen = number

        return trained(lane, lambda m, x, y: F.cross_entropy(m(x), y), model, between)

    assert check_equal(job, service).graphs() == 1


def test_a_gradient_in_an_attribute_that_each_iteration_sets(service):
    """Attributes of parameters are set as those of modules are."""

    def job(lane):
        model, kept = net(), []

        def keep(loss):
            for parameter in model.parameters():
                parameter.main_grad = parameter.grad.detach().clone() * 2
                parameter.rows = len(parameter)

        def step(x, y):
            return made(x, y)

        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def made(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            keep(loss)
            optimizer.step()
            return loss

        for x, y in batches(4):
            made(x, y)
            kept += [[p.main_grad.clone(), p.rows] for p in model.parameters()]
            for p in model.parameters():
                p.rows = None
        return kept, model

    assert check_equal(job, service).graphs() == 1


def test_gradients_that_are_added_up_in_an_attribute(service):
    """In a tensor that is there before: each call writes it."""

    def job(lane):
        model, kept = net(), []
        for parameter in model.parameters():
            parameter.main_grad = torch.zeros_like(parameter, requires_grad=False)
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            for parameter in model.parameters():
                parameter.main_grad.add_(parameter.grad)
            optimizer.step()
            return loss

        for x, y in batches(4):
            train(x, y)
            kept += [p.main_grad.clone() for p in model.parameters()]
        return kept, model

    check_equal(job, service)


def test_a_gradient_that_the_next_iteration_reads_is_refused(service):
    def job(lane):
        model = net()
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            for parameter in model.parameters():
                parameter.total = getattr(parameter, "total", 0) + parameter.grad
            optimizer.step()
            return loss

        return [train(x, y) for x, y in batches(2)]

    said = check_refused(job, service, r"'total' of .*0\.weight \(a Parameter\): it stores what")
    assert "register a buffer" in said


def test_a_refusal_leaves_no_attribute(service):
    model, outside = net(), torch.zeros(2)

    def loss_of(out, y):
        loss = F.cross_entropy(out, y)
        outside.last, model[0].weight.count = loss.detach(), 3
        return loss

    step = laneway.train_step(model, loss_of, sgd(model), service)
    with pytest.raises(laneway.CaptureError, match=r"'last' of outside \(a Tensor\)"):
        step(*batches(1)[0])
    assert not vars(outside) and not vars(model[0].weight)


def test_the_gradient_of_a_tensor_outside_is_refused_and_put_back(service):
    outside, model = torch.zeros(2), net()

    def loss_of(out, y):
        loss = F.cross_entropy(out, y)
        outside.grad = loss.detach().expand(2).clone()
        return loss

    step = laneway.train_step(model, loss_of, sgd(model), service)
    with pytest.raises(laneway.CaptureError, match=r"'grad' of outside \(a Tensor\): it stores"):
        step(*batches(1)[0])
    assert outside.grad is None


def test_a_plain_attribute_of_a_tensor_outside(service):
    def job(lane):
        outside, seen = torch.ones(4), []
        outside.scale = 1.0

        def between(number):
            seen.append(getattr(outside, "rows", None))
            outside.rows, outside.scale = None, 1.0 + number // 2

        def loss_of(model, x, y):
            outside.rows = len(x)
            return F.cross_entropy(model(x) * outside * outside.scale, y)

        return trained(lane, loss_of, between=between), seen

    check_equal(job, service)


def test_an_attribute_of_an_argument_that_the_step_reads(service):
    def job(lane):
        model = net()
        optimizer, losses = sgd(model), []

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * getattr(x, "weight", 1.0)
            loss.backward()
            optimizer.step()
            return loss

        for number, (x, y) in enumerate(batches(6)):
            if number in (1, 2, 5):
                x.weight = 0.5 if number == 1 else 0.25
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 3


def test_an_attribute_of_an_argument_that_the_step_sets_is_refused(service):
    def job(lane):
        def loss_of(model, x, y):
            x.seen = True
            return F.cross_entropy(model(x), y)

        return trained(lane, loss_of)

    check_refused(job, service, r"'seen' of argument 0 \(a Tensor\): it sets that on an argument")


def test_an_error_about_an_attribute_is_eagers(service):
    def loss_of(model, x, y):
        return F.cross_entropy(model(x), y) * model[0].weight.factor

    with pytest.raises(AttributeError, match=r"^'Parameter' object has no attribute 'factor'$"):
        trained(types.SimpleNamespace(step=lambda *a: laneway.step(*a, service=service)), loss_of)


class Recurrent(nn.Module):
    """Has its weights in a list, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(8, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        return self.out(self.rnn(x.unsqueeze(1))[0][:, -1])


def test_parameters_of_a_recurrent_layer(service):
    def job(lane):
        model = Recurrent()
        model.rnn.weight_ih_l0.factor = 1.0

        def between(number):
            model.rnn.weight_ih_l0.factor = 1.0 + number // 2

        def loss_of(model, x, y):
            first = model.rnn.weight_ih_l0
            return F.cross_entropy(model(x), y) + first.square().sum() * first.factor

        return trained(lane, loss_of, model, between)

    check_equal(job, service)
