"""Shows that the gradients of a step with an optimizer are in `.grad` behind it, with eager's bits,
where the user's code around the step reads them; and that no job keeps any where it does not.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.jobs.forms.code_around import reads_gradients
from support.both import batches, check_equal, check_refused, net, sgd


def trained(lane: Any, model: nn.Module, inside: Any = lambda model: None) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        inside(model)
        optimizer.step()
        return loss

    return train


def norm_of(model: nn.Module) -> float:
    return float(sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None))


class Logger:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.log = model, []

    def note(self) -> None:
        self.log.append(
            [None if p.grad is None else p.grad.clone() for p in self.model.parameters()]
        )


def in_the_loop(lane):
    model, log = net(), []
    train = trained(lane, model)
    for batch in batches():
        loss = train(*batch)
        log.append((loss.item(), [p.grad.norm().item() for p in model.parameters()]))
    return log, model


def in_a_function(lane):
    model = net()
    train = trained(lane, model)
    return [(train(*batch).item(), norm_of(model)) for batch in batches()], model


def in_a_method(lane):
    model = net()
    train, logger = trained(lane, model), Logger(model)
    for batch in batches():
        train(*batch)
        logger.note()
    return logger.log


def clipped_inside(lane):
    model = net()
    train = trained(lane, model, lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.1))
    return [(train(*batch).item(), norm_of(model)) for batch in batches()]


def cleared_outside(lane):
    model, log = net(), []
    train = trained(lane, model)
    for batch in batches():
        train(*batch)
        log.append(norm_of(model))
        model.zero_grad()
        log.append(norm_of(model))
    return log, model


def frozen_and_unfrozen(lane):
    model, log = net(), []
    model[0].requires_grad_(False)
    train = trained(lane, model)
    for number, batch in enumerate(batches()):
        if number in (2, 4):
            model[0].requires_grad_(number == 2)
        train(*batch)
        log.append(norm_of(model))
    return log, model


def at_the_end(lane):
    model = net()
    train = trained(lane, model)
    for batch in batches():
        train(*batch)
    if lane.__class__.__name__ == "Served":
        train.close()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize(
    "job",
    [
        in_the_loop,
        in_a_function,
        in_a_method,
        clipped_inside,
        cleared_outside,
        frozen_and_unfrozen,
        at_the_end,
    ],
)
def test_gradients_that_are_read_are_eagers(service, job) -> None:
    check_equal(job, service)


def test_gradients_that_nobody_reads_are_not_kept(service) -> None:
    def inside(model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.grad.clamp_(-1, 1)

    class Lane:
        @staticmethod
        def step(model, optimizer):
            return laneway.step(model, optimizer, service=service)

    train = trained(Lane, net(), inside)
    train(*batches(1)[0])
    assert "gradients" not in train.state_dict()


def calls(function: Any = None) -> bool:
    return reads_gradients(function)


def test_the_step_s_own_function_and_autograd_s_do_not_count() -> None:
    def the_step(p):
        return p.grad, torch.autograd.grad(p, p)

    from torch import autograd

    x = torch.ones(1, requires_grad=True)
    torch.autograd.grad(x.sum(), x)
    autograd.grad(x.sum(), x)
    assert not calls(the_step)


def test_a_read_in_an_inner_function_counts() -> None:
    def log(p):
        return p.data, p.grad

    assert calls()


def test_a_step_that_its_own_closure_reaches() -> None:
    def the_step(count: int) -> int:
        return the_step(count - 1) if count else 0

    assert not calls(the_step)


@pytest.mark.parametrize("to_none", [True, False])
def test_an_optimizer_outside_of_the_step_zeroes_the_gradients_in_it(to_none, service) -> None:
    """The step is forward and backward; the loop's optimizer is no part of it, and its zero_grad()
    in the function is for what the job keeps."""

    def job(lane):
        model, first = net(), True
        optimizer = sgd(model)

        @lane.step(model, None)
        def gradients(x, y):
            if first:
                optimizer.zero_grad(set_to_none=to_none)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses = []
        for number, batch in enumerate(batches(6)):
            first = number % 2 == 0
            losses.append(gradients(*batch))
            if not first:
                optimizer.step()
        return losses, model

    check_equal(job, service)


def test_zero_grad_of_what_is_no_part_of_the_step_is_refused(service) -> None:
    def job(lane):
        other = net()
        optimizer = sgd(other)
        for parameter in other.parameters():
            parameter.grad = torch.ones_like(parameter)

        @lane.step(net(), None)
        def gradients(x, y):
            optimizer.zero_grad()
            return x.sum()

        return gradients(*batches(1)[0])

    words = r"calls zero_grad\(\) of an optimizer \(SGD\) that is not the step's own"
    check_refused(job, service, words)
