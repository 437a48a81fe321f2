"""Nothing of a capture outlives it: where a store that no watch sees holds what the step computes,
the capture is refused by name; what holds itself alone is no store."""

import collections
import contextvars
import gc
import queue
import re
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_train_step
from support.both import batches, check_equal, net


class Slots:
    __slots__ = ("value",)


class Table(dict):
    pass


_local, _queue, _slots, _tensor = threading.local(), queue.SimpleQueue(), Slots(), torch.zeros(2)
_context: contextvars.ContextVar = contextvars.ContextVar("context")
_ordered: collections.OrderedDict = collections.OrderedDict()

# Who keeps a value where no watch sees it; the words for the store; how it is looked into.
STORES = {
    "a queue": (_queue.put, "SimpleQueue", lambda: []),
    "a local of the thread": (
        lambda value: setattr(_local, "value", value),
        "'value'",
        lambda: vars(_local).values(),
    ),
    "a slot, past the class": (
        lambda value: object.__setattr__(_slots, "value", value),
        "Slots",
        lambda: [],
    ),
    "an attribute of a tensor": (
        lambda value: setattr(_tensor, "last", value),
        "'last' of a Tensor",
        lambda: vars(_tensor).values(),
    ),
    "a context variable": (_context.set, "still holds", lambda: []),
}


def _step(model, optimizer, within):
    def train(x, y):
        optimizer.zero_grad()
        hidden = model[0](x)
        loss = F.cross_entropy(model[2](hidden.relu()), y)
        within(loss, hidden)
        loss.backward()
        optimizer.step()
        return loss

    return train


@pytest.mark.parametrize("what", ["a tensor", "a number"])
@pytest.mark.parametrize("name", STORES)
def test_a_store_that_nobody_watches_is_named(name, what):
    store, words, held = STORES[name]
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def within(loss, hidden):
        store(loss.detach() if what == "a tensor" else loss.item() * 2)

    before = [p.detach().clone() for p in model.parameters()]
    with laneway.embedded("64MiB") as service:
        train = laneway.step(model, optimizer, service=service)(_step(model, optimizer, within))
        with pytest.raises(laneway.CaptureError) as refused:
            train(*batches(1)[0])
    assert re.search(words, str(refused.value)), str(refused.value)
    assert "return the value from the step" in str(refused.value)
    assert what == "a number" or "test_capture_survivors.py" in str(refused.value)
    assert not list(held()), "the store has it no longer"
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


class _Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = result = x * 2
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def _cycle(loss, hidden):
    table = Table(loss=loss)
    table["self"] = table


# What a step makes that holds itself: the collector does not see through all of it.
CYCLES = {
    "a hook with its tensor": lambda loss, hidden: hidden.register_hook(
        lambda gradient: gradient + 0 * hidden.detach()
    ),
    "a hook on two tensors": lambda loss, hidden: torch.autograd.graph.register_multi_grad_hook(
        (hidden, loss), lambda gradients: [hidden, loss][:0]
    ),
    "a dictionary": _cycle,
    "an attribute of itself": lambda loss, hidden: setattr(hidden, "own", hidden),
    "a context of autograd": lambda loss, hidden: _Keeps.apply(hidden),
    "a gradient that is kept": lambda loss, hidden: hidden.retain_grad(),
}


@pytest.mark.parametrize("name", CYCLES)
def test_what_holds_itself_is_no_store(name, service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.step(model, optimizer)(_step(model, optimizer, CYCLES[name]))
        return [train(x, y) for x, y in batches(2)], model

    check_equal(job, service)


def test_a_capture_that_runs_twice_for_its_gradients_leaves_no_tensor():
    """Clipping of gradients that stay between calls: the first run is given up by an error, which
    a tensor held, and hooks on tensors held the run."""
    model = nn.Sequential(nn.Linear(8, 4))
    before = _runs()
    optimizer = torch.optim.AdamW(model.parameters())

    def closure(model, optimizer, x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    captured = capture_train_step(model, None, optimizer, batches(1)[0], closure=closure)
    assert captured.gradients
    assert _runs() == before


def _runs() -> int:
    gc.collect()
    return sum(type(found).__name__ in ("Recorder", "FakeJob") for found in gc.get_objects())


def test_the_collector_is_as_it_was():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for is_frozen in (False, True):
        if is_frozen:
            gc.freeze()
        try:
            frozen = gc.get_freeze_count()
            capture_train_step(model, F.cross_entropy, optimizer, batches(1)[0])
            assert gc.get_freeze_count() == frozen and gc.isenabled()
        finally:
            gc.unfreeze()
