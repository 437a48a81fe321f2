"""Shows that a step uses the current values of the variables outside of its function: it is
captured again when one has changed, and not when none has. Eager runs the same function."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

import laneway
from support.eager import assert_same
from support.square import X, made

clip = 0.5  # of test_a_global_number


def check_changes(service: Any, make: Any) -> None:
    """make() gives a function of a value that the step reads from outside, and a function that sets
    that value: the losses must be eager's for each value."""

    def run(wrap):
        model, optimizer, _ = made()
        scaled, put = make()

        def train(x):
            optimizer.zero_grad()
            loss = scaled(model(x).pow(2).mean())
            loss.backward()
            optimizer.step()
            return loss

        call = wrap(model, optimizer, train)
        found = []
        for value in (0.5, 0.5, 2.0, 0.5, 0.0, -0.0, 1):
            put(value)
            found.append(call(X))
        return found

    losses = run(lambda model, optimizer, train: train)
    assert_same(run(lambda m, o, train: laneway.step(m, o, service=service)(train)), losses)


def test_a_free_number(service):
    def make():
        factor = 1.0

        def put(value):
            nonlocal factor
            factor = value

        return lambda loss: loss * factor, put

    check_changes(service, make)


def test_a_global_number(service):
    def put(value):
        global clip
        clip = value

    check_changes(service, lambda: (lambda loss: loss * clip, put))


def test_a_number_of_a_namespace(service):
    def make():
        args = argparse.Namespace(clip=1.0)
        return lambda loss: loss * args.clip, lambda value: setattr(args, "clip", value)

    check_changes(service, make)


def test_a_number_of_a_dictionary(service):
    def make():
        config = {"clip": 1.0}
        return lambda loss: loss * config["clip"], lambda value: config.update(clip=value)

    check_changes(service, make)


def test_a_tensor_that_another_one_replaces(service):
    def make():
        factor = torch.tensor(1.0)

        def put(value):
            nonlocal factor
            factor = torch.tensor(float(value))

        return lambda loss: loss * factor, put

    check_changes(service, make)


def test_a_number_of_the_function_that_computes_the_loss(service):
    factor = 1.0

    def loss_fn(output, target):
        return nn.functional.mse_loss(output, target) * factor

    model, optimizer, _ = made()
    step = laneway.train_step(model, loss_fn, optimizer, service)
    first = step(X, torch.zeros(8, 1))
    with laneway.embedded("64MiB") as other:
        model, optimizer, _ = made()
        factor = 3.0
        second = laneway.train_step(model, loss_fn, optimizer, other)(X, torch.zeros(8, 1))
    assert_same(second, first * 3.0)
    assert step.report()["graphs"].__len__() == 1
    step(X, torch.zeros(8, 1))
    assert step.report()["graphs"].__len__() == 2


def test_unchanged_variables_need_no_other_graph(service):
    factor, args = 1.0, argparse.Namespace(clip=2.0)

    def body(loss):
        return loss * factor * args.clip

    model, optimizer, train = made(body)
    step = laneway.step(model, optimizer, service=service)(train)
    step(X)
    args.clip = float("2")  # an equal number, but another object
    args.other = 3
    for _ in range(3):
        step(X)
    assert len(step.report()["graphs"]) == 1
