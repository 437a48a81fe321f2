"""Shows that draws of Python's and numpy's generators, and batches that a step fetches itself, are
refused before anything has moved, with the line, and that the remedies give eager's bits."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net, sgd


def drawing(draw: Any) -> Any:
    def job(lane):
        model = net()
        train = lane.train_step(model, lambda out, y: F.cross_entropy(out, y) * draw(), sgd(model))
        return [train(x, y) for x, y in batches(3)]

    return job


OWN = random.Random(3)
DRAWS = {
    "random": (lambda: random.random(), "Python's random"),
    "shuffle": (lambda: random.sample([1.0, 2.0, 3.0], 1)[0], "Python's random"),
    "a generator of one's own": (lambda: OWN.random(), r"OWN \(a Random\)"),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_draws_that_are_not_torchs_are_refused_and_taken_back(kind, service):
    draw, words = DRAWS[kind]
    before = OWN.getstate()
    said = check_refused(drawing(draw), service, f"draws from {words}")
    assert "test_python_chance.py:" in said
    assert "draw with torch (torch.rand" in said
    random.seed(0)
    expected = random.random()
    random.seed(0)
    OWN.setstate(before)
    with pytest.raises(laneway.CaptureError):
        laneway.inference(nn.Identity(), service, closure=lambda m, x: x * draw())(torch.ones(2))
    assert random.random() == expected
    assert OWN.getstate() == before
    check_equal(drawing(lambda: torch.rand(())), service)


def test_draws_of_numpy_are_refused(service):
    numpy = pytest.importorskip("numpy")
    generator = numpy.random.default_rng(3)
    for draw in (lambda: float(numpy.random.random()), lambda: float(generator.random())):
        check_refused(drawing(draw), service, "draws from (numpy.random|generator)")


def endless(pairs):
    while True:
        yield from pairs


STREAMS = {
    "a list's iterator": lambda: iter(batches(8)),
    "a generator": lambda: endless(batches(2)),
    "a DataLoader's iterator": lambda: iter(
        torch.utils.data.DataLoader(batches(8), batch_size=None)
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_batch_that_the_step_fetches_is_refused_before_it_is_taken(kind, service):
    streams = []

    def job(lane, inside=True):
        model, stream = net(), STREAMS[kind]()
        optimizer = sgd(model)
        streams.append(stream)

        def learn(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        if not inside:
            train = lane.step(model, optimizer)(learn)
            return [train(*next(stream)) for _ in range(4)]
        fetching = lane.step(model, optimizer)(lambda: learn(*next(stream)))
        return [fetching() for _ in range(4)]

    said = check_refused(job, service, "takes from stream, an iterator that is not its own")
    assert "call next() outside of the step" in said
    assert torch.equal(next(streams[-1])[0], batches(1)[0][0])
    check_equal(lambda lane: job(lane, inside=False), service)
