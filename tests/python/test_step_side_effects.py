"""Shows that a step never silently differs from eager execution by what its function does to Python
state outside of it: such changes are refused and undone, as everything is after an exception. Each
case is a function as a user would write it."""

from __future__ import annotations

import collections
import multiprocessing
import types
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import laneway
from laneway.errors import CaptureError, Error
from support.eager import assert_same
from support.square import X, made, net

total = 0.0
history: list[Any] = []


class Meter:
    def __init__(self) -> None:
        self.sum = 0.0

    def update(self, value: Any) -> None:
        self.sum += value


def appended() -> tuple[Any, Any, str]:
    losses: list[Any] = []
    return lambda loss: losses.append(loss.detach()), losses, "the list losses"


def appended_inside() -> tuple[Any, Any, str]:
    logs: dict[str, list] = {"loss": []}
    return lambda loss: logs["loss"].append(loss), logs["loss"], r"the list logs\['loss'\]"


def counted() -> tuple[Any, Any, str]:
    counter: Any = collections.Counter(calls=3)

    def body(loss):
        counter["calls"] += 1

    return body, counter, "the Counter counter"


def defaulted() -> tuple[Any, Any, str]:
    table: Any = collections.defaultdict(list)
    return lambda loss: table["loss"].append(loss), table, "the defaultdict table"


def recorded() -> tuple[Any, Any, str]:
    last: dict[str, Any] = {"loss": 1.0}
    return lambda loss: last.update(loss=loss.detach()), last, "the dict last"


def met() -> tuple[Any, Any, str]:
    meter = Meter()
    return (
        lambda loss: meter.update(loss.item()),
        meter.__dict__,
        r"the attribute 'sum' of meter \(a Meter\)",
    )


def rebound() -> tuple[Any, Any, str]:
    calls = 0
    seen = types.SimpleNamespace()

    def body(loss):
        nonlocal calls
        calls += 1

    seen.read = lambda: calls
    return body, seen, "the variable 'calls'"


def summed() -> tuple[Any, Any, str]:
    def body(loss):
        global total
        total += loss.item()

    return body, globals(), "the variable 'total'"


def remembered() -> tuple[Any, Any, str]:
    return lambda loss: history.append(1), history, "the list history"


CASES = [
    appended,
    appended_inside,
    counted,
    defaulted,
    recorded,
    met,
    rebound,
    summed,
    remembered,
]


@pytest.mark.parametrize("case", CASES)
def test_a_change_of_python_state_is_refused_and_undone(case, service):
    body, state, words = case()
    before = dict(state) if isinstance(state, dict) else [*getattr(state, "__dict__", state)]
    model, optimizer, train = made(body)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    random = torch.get_rng_state()
    step = laneway.step(model, optimizer, service=service)(train)
    with pytest.raises(CaptureError, match=f"the step changes {words}.*return the value"):
        step(X)
    if case is rebound:
        assert state.read() == 0
    else:
        assert (dict(state) if isinstance(state, dict) else [*state]) == before
    assert_same(dict(model.state_dict()), weights)
    assert torch.equal(torch.get_rng_state(), random)


def test_a_list_of_the_model_is_refused(service):
    class Logging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.log = net(), []

        def forward(self, x):
            y = self.inner(x)
            self.log.append(y.sum())
            return y

    model = Logging()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = laneway.train_step(model, nn.MSELoss(), optimizer, service)
    with pytest.raises(CaptureError, match=r"the list Logging\.log"):
        step(X, torch.zeros(8, 1))
    assert model.log == []
    predict = laneway.inference(model, service)
    with pytest.raises(CaptureError, match=r"the list Logging\.log"):
        predict(X)


def test_a_cache_that_is_filled_once_is_no_change(service):
    """A mask that depends on shapes alone, and a set of shapes that were seen."""

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.masks, self.seen = net(), {}, set()

        def forward(self, x):
            self.seen.add(tuple(x.shape))
            if len(x) not in self.masks:
                self.masks[len(x)] = torch.arange(len(x)).remainder(2).unsqueeze(1).float()
            return self.inner(x) * self.masks[len(x)]

    def run(make):
        torch.manual_seed(1)
        model = Cached()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        call = make(model, optimizer)
        return [call(x, torch.zeros(len(x), 1)) for x in (X, X[:4], X, X[:4])], model

    def eager(model, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    losses, _ = run(eager)
    found, model = run(lambda m, o: laneway.train_step(m, nn.MSELoss(), o, service))
    assert_same(found, losses, "losses")
    assert model.masks == {}


def test_a_list_that_is_emptied_again_is_no_change(service):
    features: list[torch.Tensor] = []

    def run(wrap):
        model, optimizer, _ = made()
        model[1].register_forward_hook(lambda m, i, output: features.append(output))

        def train(x):
            optimizer.zero_grad()
            features.clear()
            loss = model(x).pow(2).mean() + features[0].abs().mean()
            loss.backward()
            optimizer.step()
            features.clear()
            return loss

        call = wrap(model, optimizer, train)
        return [call(X * k) for k in (1, 2, 3)]

    losses = run(lambda model, optimizer, train: train)
    assert_same(run(lambda m, o, train: laneway.step(m, o, service=service)(train)), losses)


def test_an_exception_in_the_middle_changes_nothing(service):
    fail = True
    log: list[Any] = []
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)

    def train(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if fail:
            log.append(1)
            raise KeyError("in the middle")
        return loss

    expected, random = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    scale, attributes = scaler.state_dict(), dict(scaler.__dict__)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    grads = [parameter.grad for parameter in model.parameters()]
    step = laneway.step(model, optimizer, service=service)(train)
    with pytest.raises(KeyError, match="in the middle"):
        step(X)
    assert log == []
    assert_same(dict(model.state_dict()), expected)
    assert all(p.grad is g for p, g in zip(model.parameters(), grads))
    assert optimizer.state_dict()["state"] == {}
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert torch.equal(torch.get_rng_state(), random)
    assert scaler.state_dict() == scale
    assert scaler.__dict__.keys() == attributes.keys()
    fail = False
    assert step(X).item() == pytest.approx(net()(X).pow(2).mean().item(), rel=1)


def test_a_step_in_a_loaders_worker_is_refused(service):
    model, optimizer, train = made()
    step = laneway.step(model, optimizer, service=service)(train)
    step(X)

    class Trains(Dataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            try:
                return step(X)
            except Error as error:
                return str(error)

    context = multiprocessing.get_context("fork")
    (words,) = DataLoader(Trains(), batch_size=None, num_workers=1, multiprocessing_context=context)
    assert "belongs to process" in words
    assert "use it in process" in words
    step(X)
