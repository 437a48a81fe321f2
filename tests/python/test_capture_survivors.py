"""Nothing of a capture outlives it: a store that no watch sees, and that has what the step
computes, is named and the step refused; what holds itself, or looks on from another thread, is
none."""

import concurrent.futures
import contextvars
import gc
import queue
import threading
import weakref

import pytest
import torch
import torch._dynamo  # two threads must not load it at one time
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_inference, capture_train_step
from support.both import batches, check_equal, check_refused, net, sgd


class Slots:
    __slots__ = ("value",)


class Bag:
    held = None


_local, _queue, _slots, _tensor = threading.local(), queue.SimpleQueue(), Slots(), torch.zeros(2)
_context: contextvars.ContextVar = contextvars.ContextVar("context")


def _in_a_future(value):
    future = concurrent.futures.Future()
    future.set_result(value)
    _tensor.future = future


def _as_a_default(value):
    def later(value=value):
        return value

    object.__setattr__(_slots, "value", later)


def _in_a_generator(value):
    def generate():
        yield value

    started = generate()
    next(started)
    object.__setattr__(_slots, "value", started)


def _as_an_error(value):
    try:
        raise ValueError(value)
    except ValueError as error:
        object.__setattr__(_slots, "value", error)


# Who keeps a value where no watch sees it, and the words for the store.
STORES = {
    "a queue": (_queue.put, "the SimpleQueue store"),
    "a local of the thread": (lambda value: setattr(_local, "value", value), "_local"),
    "a slot, past the class": (
        lambda value: object.__setattr__(_slots, "value", value),
        "the Slots _slots",
    ),
    "an attribute of a tensor": (
        lambda value: setattr(_tensor, "last", value),
        r"the attribute 'last' of _tensor \(a Tensor\)",
    ),
    "a context variable": (_context.set, "the context variable 'context'"),
    "a future": (_in_a_future, r"the attribute 'future' of _tensor \(a Tensor\)"),
    "a default of a function": (_as_a_default, "the function"),
    "a generator": (_in_a_generator, "the generator"),
    "an exception": (_as_an_error, "the ValueError"),
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


def _job(within):
    def job(lane):
        model = net()
        optimizer = sgd(model)
        train = lane.step(model, optimizer)(_step(model, optimizer, within))
        return [train(x, y) for x, y in batches(3)], model

    return job


@pytest.fixture
def emptied():
    yield
    while not _queue.empty():
        _queue.get()
    for entries in (vars(_local), vars(_tensor)):
        for name in ("value", "last", "future"):
            entries.pop(name, None)
    _context.set(None)
    object.__setattr__(_slots, "value", None)


@pytest.mark.parametrize("what", ["a tensor", "a number"])
@pytest.mark.parametrize("name", STORES)
def test_a_store_that_nobody_watches_is_named(name, what, service, emptied):
    store, words = STORES[name]

    def within(loss, hidden):
        store(loss.detach() if what == "a tensor" else loss.item() * 2)

    told = check_refused(_job(within), service, words, "return the value from the step")
    assert "test_capture_survivors.py" in told


def test_a_queue_of_the_function_around_is_named(service):
    """Nothing but the step itself leads to it."""

    def job(lane):
        model, losses = net(), queue.SimpleQueue()
        optimizer = sgd(model)
        keep = lambda loss, hidden: losses.put(loss.detach())  # noqa: E731
        train = lane.step(model, optimizer)(_step(model, optimizer, keep))
        return [train(x, y) for x, y in batches(2)], model

    check_refused(job, service, "the step changes the SimpleQueue losses: it stores what the step")


class _Trainer:
    """Keeps its losses, and is itself kept by very many others."""

    def __init__(self, others):
        self.losses, self.model = queue.SimpleQueue(), net()
        self.optimizer = sgd(self.model)
        self.others = [[self] for _ in range(others)]

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        self.losses.put(loss.detach())
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("others", [0, 6000])
def test_a_queue_of_the_object_whose_method_the_step_is(others, service):
    def job(lane):
        trainer = _Trainer(others)
        train = lane.step(trainer.model, trainer.optimizer)(trainer.train)
        return [train(x, y) for x, y in batches(2)], trainer.model

    check_refused(job, service, r"the SimpleQueue function\.losses: it stores what the step")


def test_nothing_is_changed_by_the_refusal(service):
    model, losses = net(), queue.SimpleQueue()
    optimizer = torch.optim.AdamW(model.parameters())
    before = [p.detach().clone() for p in model.parameters()]
    keep = lambda loss, hidden: losses.put(loss)  # noqa: E731
    train = laneway.step(model, optimizer, service=service)(_step(model, optimizer, keep))
    for _ in range(2):
        with pytest.raises(laneway.CaptureError, match="losses"):
            train(*batches(1)[0])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert not optimizer.state and losses.empty()


def test_the_remedy(service):
    def job(lane):
        model, losses = net(), queue.SimpleQueue()
        optimizer = sgd(model)
        train = lane.step(model, optimizer)(_step(model, optimizer, lambda loss, hidden: None))
        for x, y in batches(3):
            losses.put(train(x, y).detach().clone())
        return [losses.get() for _ in range(3)], model

    check_equal(job, service)


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
    table = {"loss": [loss]}
    table["self"] = table


def _caught(loss, hidden):
    try:
        raise ValueError(loss)
    except ValueError as error:
        kept = [error]
        kept.append(kept)


# What a step makes that holds itself: the collector does not see through all of it.
CYCLES = {
    "a hook with its tensor": lambda loss, hidden: hidden.register_hook(
        lambda gradient: gradient + 0 * hidden.detach()
    ),
    "a hook on two tensors": lambda loss, hidden: torch.autograd.graph.register_multi_grad_hook(
        (hidden, loss), lambda gradients: [hidden, loss][:0]
    ),
    "a hook on a node": lambda loss, hidden: hidden.grad_fn.register_hook(
        lambda *gradients: [hidden][:0] or None
    ),
    "a hook on a view": lambda loss, hidden: hidden.view(-1).register_hook(
        lambda gradient: gradient + 0 * hidden.view(-1).detach()
    ),
    "a dictionary": _cycle,
    "an attribute of itself": lambda loss, hidden: setattr(hidden, "own", hidden),
    "a context of autograd": lambda loss, hidden: _Keeps.apply(hidden),
    "a gradient that is kept": lambda loss, hidden: hidden.retain_grad(),
    "an exception and its frames": _caught,
    "a weak reference": lambda loss, hidden: setattr(_tensor, "weak", weakref.ref(hidden)),
}


@pytest.mark.parametrize("name", CYCLES)
def test_what_holds_itself_is_no_store(name, service):
    check_equal(_job(CYCLES[name]), service)


SCANS = {
    "all objects": gc.get_objects,
    "all tensors": lambda: [o for o in gc.get_objects() if torch.Tensor in type(o).__mro__],
    "fakes in a set": lambda: {o for o in gc.get_objects() if type(o).__name__ == "FakeTensor"},
}
_seen = Bag()  # what another thread saw


@pytest.mark.parametrize("name", SCANS)
def test_who_looks_at_all_objects_is_no_store(name, service):
    """Another thread does so in the middle of the step, and keeps what it found."""
    asked, answered = queue.SimpleQueue(), queue.SimpleQueue()

    def look():
        while asked.get():
            _seen.held = mine = SCANS[name]()  # in an object that code can reach, and in a frame
            answered.put(len(mine))

    def within(loss, hidden):
        _cycle(loss, hidden)  # so that the capture looks for stores
        if isinstance(loss, FakeTensor):
            asked.put(True)
            assert answered.get() > 0

    thread = threading.Thread(target=look)
    thread.start()
    try:
        check_equal(_job(within), service)
        assert len(_seen.held) > 0
    finally:
        asked.put(False)
        thread.join()
        _seen.held = None


def _capture(model, within):
    def step(model, optimizer, x, y):
        return _step(model, optimizer, within)(x, y)

    capture_train_step(model, None, sgd(model), batches(1)[0], closure=step)


def test_captures_that_overlap_keep_nothing_and_refuse_nothing():
    failed = []

    def capture(number):
        try:
            for _ in range(6):
                model = net()
                _capture(model, (_cycle, CYCLES["a hook with its tensor"])[number % 2])
                capture_inference(model, batches(1)[0][:1])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=capture, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_store_is_named_while_others_capture(service, emptied):
    ends = threading.Event()

    def others():
        while not ends.is_set():
            _capture(net(), _cycle)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        within = lambda loss, hidden: _queue.put(loss.detach())  # noqa: E731
        check_refused(_job(within), service, "the SimpleQueue _queue")
    finally:
        ends.set()
        thread.join()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_plain_capture_needs_no_collector(optimizer, monkeypatch):
    """Its own objects are taken apart: nothing waits for the collector, which costs 0.1 s, and
    nobody asks it."""
    model = net(nn.BatchNorm1d(16), nn.Dropout(0.1))
    made = optimizer(model.parameters(), lr=0.1)
    gc.collect()
    of_others = set(map(id, _of_captures()))  # torch.compile keeps what it captured
    asked = []
    monkeypatch.setattr(gc, "collect", lambda *_: asked.append(True))
    gc.disable()
    try:
        capture_train_step(model, F.cross_entropy, made, batches(1)[0])
        capture_inference(model, batches(1)[0][:1])
        alive = [part for part in _of_captures() if id(part) not in of_others]
    finally:
        gc.enable()
    assert alive == [] == asked


def _of_captures():
    return [o for o in gc.get_objects() if type(o).__name__ in ("FakeTensor", "Recorder")]


def test_the_collector_is_as_it_was():
    model = net()
    for is_frozen in (False, True):
        if is_frozen:
            gc.freeze()
        try:
            frozen = gc.get_freeze_count()
            _capture(model, _cycle)
            assert gc.get_freeze_count() == frozen and gc.isenabled()
        finally:
            gc.unfreeze()


def test_what_the_user_keeps_lives_no_longer_and_no_shorter(service):
    model = net()
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service)
    bag = Bag()
    bag.own = bag
    seen = weakref.ref(bag)
    del bag
    x, y = batches(1)[0]
    train(x, y)
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("kind", ["list", "future"])
def test_a_tensor_that_cpp_alone_holds_says_so_when_it_is_used(kind, service):
    model = net()
    optimizer = sgd(model)
    held = torch._C.ScriptList([torch.ones(())]) if kind == "list" else torch.futures.Future()

    @laneway.step(model, optimizer, service=service)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        held.append(loss.detach()) if kind == "list" else held.set_result(loss.detach())
        loss.backward()
        optimizer.step()
        return loss

    train(*batches()[0])
    kept = held[1] if kind == "list" else held.value()
    for use in (torch.Tensor.item, torch.Tensor.clone, lambda tensor: torch.ones(()) * tensor):
        with pytest.raises(laneway.CaptureError, match="object of C\\+\\+, has kept it"):
            use(kept)
