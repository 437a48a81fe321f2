"""Shows what becomes of Python state that a step changes: plain changes happen, as in eager. What
no graph can repeat is refused before anything has changed, in words that name it, and the remedy
works. Each case is a job as a user writes it."""

from __future__ import annotations

import collections
import functools
import logging
import types
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import batches, check_equal, check_refused, net, sgd

TABLES: dict[int, torch.Tensor] = {}


class Meter:
    def __init__(self) -> None:
        self.sum, self.values = 0.0, []

    def update(self, value: Any) -> None:
        self.sum += value
        self.values.append(value)


def trained(lane: Any, tell: Any) -> list[torch.Tensor]:
    """The losses of a step that calls tell(loss) inside."""
    model = net()
    optimizer = sgd(model)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        tell(loss)
        return loss

    return [train(x, y) for x, y in batches(3)]


def in_a_dictionary():
    meters = {"loss": Meter()}
    return lambda loss: meters["loss"].update(loss.item()), "'sum' of .*a Meter"


def in_a_default_argument():
    def tell(loss, seen=[]):  # noqa: B006
        seen.append(loss.item())

    return tell, "the list a default argument of tell"


def in_a_deque_two_objects_deep():
    trainer = types.SimpleNamespace(log=types.SimpleNamespace(last=collections.deque(maxlen=3)))
    return lambda loss: trainer.log.last.append(loss.item()), r"the deque trainer\.log\.last"


def in_a_callbacks_list():
    class Callback:
        def __init__(self) -> None:
            self.to: list[Any] = []

        def on_loss(self, value):
            self.to.append(value)

    callbacks = [Callback()]
    return lambda loss: [
        c.on_loss(loss.detach()) for c in callbacks
    ], r"the list callbacks\[0\]\.to"


def in_an_attribute_of_a_function():
    def tell(loss):
        tell.last = loss.item()

    return tell, "'last' of tell"


def in_a_class_attribute():
    class Last:
        loss: Any = None

    def tell(loss):
        Last.loss = loss.detach()

    return tell, "'loss' of the class Last"


def in_a_slot():
    class Slotted:
        __slots__ = ("last", "older")

    held = Slotted()
    held.last = held.older = None

    def tell(loss):
        held.older = held.last
        held.last = loss.detach()

    return tell, "'last' of a Slotted"


def in_a_new_object():
    held = {"record": None}

    def tell(loss):
        held["record"] = types.SimpleNamespace(loss=[loss.item()])

    return tell, "the dict held"


STORES = [
    in_a_dictionary,
    in_a_default_argument,
    in_a_deque_two_objects_deep,
    in_a_callbacks_list,
    in_an_attribute_of_a_function,
    in_a_class_attribute,
    in_a_slot,
    in_a_new_object,
]


@pytest.mark.parametrize("store", STORES)
def test_what_the_step_computes_is_not_kept_in_python(store, service):
    tell, words = store()
    said = check_refused(lambda lane: trained(lane, tell), service, words)
    assert "stores what the step computes" in said
    assert "return the value from the step" in said


def test_a_meter_outside_of_the_step(service):
    def job(lane):
        meter = Meter()
        for loss in trained(lane, lambda loss: None):
            meter.update(loss.item())
        return meter.sum, meter.values

    check_equal(job, service)


TEXTS = {
    "print of a tensor": lambda loss: print(loss),
    "print of a number": lambda loss: print(loss.item()),
    "a log line": lambda loss: logging.getLogger("step").error("loss %s", loss.item()),
    "a log line of a tensor": lambda loss: logging.getLogger("step").error("loss %s", loss),
    "a string": lambda loss: str(loss.item()),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_of_what_the_step_computes_is_refused(kind, service):
    said = check_refused(lambda lane: trained(lane, TEXTS[kind]), service, "makes text of a tensor")
    assert "print, log or format it outside" in said
    assert "test_python_writes.py:" in said

    def remedied(lane):
        losses = trained(lane, lambda loss: None)
        for loss in losses:
            TEXTS[kind](loss)
        return losses

    check_equal(remedied, service)


class First(nn.Module):
    """Sets its scale from its first batch, and remembers that in a flag."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.scale, self.kind = nn.Parameter(torch.ones(8)), kind
        self.ready: Any = {"int": 0, "None": None, "string": "new", "list": []}.get(kind, False)

    def is_first(self) -> bool:
        if self.kind == "hasattr":
            return not hasattr(self, "seen")
        return self.ready == "new" if self.kind == "string" else not self.ready

    def note(self) -> None:
        if self.kind == "list":
            self.ready.append(1)
        elif self.kind == "hasattr":
            self.seen = True
        else:
            self.ready = {"int": 1, "None": "yes", "string": "done"}.get(self.kind, True)

    def forward(self, x):
        if self.is_first():
            with torch.no_grad():
                self.scale.copy_(1 / (x.std(0) + 1e-5))
            self.note()
        return x * self.scale


@pytest.mark.parametrize("kind", ["bool", "int", "None", "string", "list", "hasattr"])
def test_a_first_batch_is_another_graph(kind, service):
    def job(lane):
        model = nn.Sequential(First(kind), nn.Linear(8, 4))
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses = [train(3 * x + 1, y) for x, y in batches(4)]
        return losses, model, model[0].ready, getattr(model[0], "seen", None)

    assert check_equal(job, service).graphs() == 2


def test_a_flag_that_is_set_in_each_iteration_is_there_afterwards(service):
    """What the step sets without reading it takes one graph."""

    def job(lane):
        model, seen = net(), []
        model.rows = None
        model.forward = lambda x: nn.Sequential.forward(model, noted(x))

        def noted(x):
            model.rows = len(x)
            return x

        train = lane.train_step(model, F.cross_entropy, sgd(model))
        for x, y in batches(3):
            train(x, y)
            seen.append(model.rows)
            model.rows = -1
        return seen, model

    assert check_equal(job, service).graphs() == 1


def test_a_warm_up_in_stages(service):
    def job(lane):
        model = net()
        model.stage = 0

        def forward(x):
            model.stage = min(model.stage + 1, 3)
            return nn.Sequential.forward(model, x) * model.stage

        model.forward = forward
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        return [train(x, y) for x, y in batches(6)], model.stage

    check_equal(job, service)


def test_a_counter_is_refused(service):
    def job(lane):
        model = net()
        model.calls = 0

        def forward(x):
            model.calls += 1
            return nn.Sequential.forward(model, x) / model.calls

        model.forward = forward
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        return [train(x, y) for x, y in batches(2)]

    check_refused(job, service, "'calls' of .*a Sequential.*: it does so again in each iteration")


@functools.cache
def cached(n: int) -> torch.Tensor:
    return torch.ones(n, 4) * n


class Cached(nn.Module):
    shared: Any = None
    by_length: ClassVar[dict[int, torch.Tensor]] = {}

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.own, self.body = kind, {}, nn.Linear(4, 4)

    def rows(self, n):
        if self.kind == "lru_cache":
            return cached(n)
        if self.kind == "a class attribute":
            if Cached.shared is None or Cached.shared.shape[0] < n:
                Cached.shared = torch.ones(n, 4)
            return Cached.shared[:n] * n
        tables = {"of the class": Cached.by_length, "global": TABLES}.get(self.kind, self.own)
        if n not in tables:
            tables[n] = torch.ones(n, 4) * n
        return tables[n]

    def forward(self, x):
        return self.body(x + self.rows(x.shape[1]))


@pytest.mark.parametrize(
    "kind", ["lru_cache", "a class attribute", "of the class", "global", "own"]
)
def test_a_cache_of_tables_has_no_fakes_afterwards(kind, service):
    def job(lane):
        TABLES.clear()
        Cached.by_length.clear()
        cached.cache_clear()
        Cached.shared = None
        model = Cached(kind)
        train = lane.train_step(model, F.mse_loss, sgd(model))
        losses, evaluated = [], []
        for n in (3, 5, 3, 5, 4):
            x = torch.randn(2, n, 4)
            losses.append(train(x, x))
            with torch.no_grad():
                evaluated.append(model(x))
        return losses, evaluated, model

    check_equal(job, service)


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 5)
        self.hidden = torch.zeros(1, 3, 8)

    def forward(self, x):
        out, hidden = self.rnn(x, self.hidden)
        self.hidden = hidden.detach()
        return self.out(out)


class WithBuffer(Stateful):
    def __init__(self) -> None:
        super().__init__()
        del self.hidden
        self.register_buffer("hidden", torch.zeros(1, 3, 8))


def test_a_tensor_for_the_next_iteration_is_refused_and_may_be_a_buffer(service):
    def job(lane, kind=Stateful):
        model = kind()
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            return loss

        pairs = [(torch.randn(3, 4, 6), torch.randint(0, 5, (3, 4))) for _ in range(4)]
        return [train(x, y) for x, y in pairs], model

    said = check_refused(job, service, "'hidden' of .*a Stateful.*stores what the step computes")
    assert "register a buffer" in said
    check_equal(lambda lane: job(lane, WithBuffer), service)


def test_an_auxiliary_loss_in_an_attribute_of_a_module(service):
    """It is set in each iteration before it is read."""

    class Gate(nn.Linear):
        auxiliary: Any = None

        def forward(self, x):
            out = super().forward(x)
            self.auxiliary = out.square().mean()
            return out

    def job(lane):
        model = nn.Sequential(Gate(8, 4))
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) + model[0].auxiliary
            loss.backward()
            optimizer.step()
            return loss

        return [train(x, y) for x, y in batches(3)], model

    check_equal(job, service)
