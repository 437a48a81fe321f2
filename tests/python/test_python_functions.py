"""Shows that a function of torch or of a package that another one takes the place of in its Python
module is used by the next call, and that warnings which eager execution shows each time are
refused."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import types
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import Eager, Served, batches, check_equal, check_refused, net, sgd, trained

OWN = {name: getattr(F, name) for name in ("relu", "linear", "batch_norm", "dropout")}
FLAGS = types.SimpleNamespace(factor=1.0)


@pytest.fixture(autouse=True)
def functions():
    """They are torch's again behind each test."""
    yield
    for name, own in OWN.items():
        setattr(F, name, own)


class Long(nn.Module):
    """Names the function by all Python modules above it."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 4)

    def forward(self, x):
        return torch.nn.functional.relu(self.a(x))


class Short(Long):
    def forward(self, x):
        return F.relu(self.a(x))


class Within(Long):
    """By a Python module that the function imports."""

    def forward(self, x):
        import torch.nn.functional as functions

        return functions.relu(self.a(x))


def layers():
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Dropout(0.1))


def scaled(own, *given, **named):
    return own(*given, **named) * 2


@pytest.mark.parametrize("make, name", [
    (Long, "relu"), (Short, "relu"), (Within, "relu"),
    (layers, "relu"), (layers, "linear"), (layers, "batch_norm"), (layers, "dropout"),
])  # fmt: skip
def test_a_function_of_torch_that_is_replaced_in_mid_training(make, name, service):
    def job(lane):
        model = make()
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses, other = [], functools.partial(scaled, OWN[name])
        for number, (x, y) in enumerate(batches()):
            setattr(F, name, other if number in (2, 3) else OWN[name])
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 2


def read_flags(x, inplace=False):
    return OWN["relu"](x) * FLAGS.factor


@pytest.mark.parametrize(
    "put", [read_flags, functools.partial(read_flags)], ids=["a function", "a partial"]
)
def test_what_took_a_functions_place_reads_its_own_state(put, service):
    """It is there at the capture already."""

    def job(lane):
        F.relu = put
        model = layers()
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses = []
        for number, (x, y) in enumerate(batches()):
            FLAGS.factor = 1.0 + number // 2
            if number == 4:
                F.relu = OWN["relu"]
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 3


def test_a_function_of_a_package(service, monkeypatch, tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "laneway_test_package.py").write_text("def scale(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(folder)
    package = importlib.import_module("laneway_test_package")
    own = package.scale

    def job(lane):
        model, losses = net(), []
        step = lane.step(model, None)(lambda x: package.scale(model(x)).sum())
        for number, (x, _) in enumerate(batches()):
            package.scale = torch.sin if number % 2 else own
            losses.append(step(x))
        return losses

    try:
        assert check_equal(job, service).graphs() == 2
    finally:
        del sys.modules["laneway_test_package"]


def test_a_step_that_is_like_another_calls_the_present_function(service):
    def job(lane):
        first, second = layers()[:2], layers()[:2]
        one = lane.train_step(first, F.cross_entropy, sgd(first))
        losses = [one(*batches(1)[0])]
        if lane.is_eager:
            other = lane.train_step(second, F.cross_entropy, sgd(second))
        else:
            other = laneway.train_step(second, F.cross_entropy, sgd(second), service, like=one)
        for number, (x, y) in enumerate(batches(4)):
            F.relu = F.relu6 if number == 2 else OWN["relu"]
            losses.append(other(x, y))
        return losses, first, second

    check_equal(job, service)


def test_captures_of_others_replace_nothing_that_is_compared(service):
    """While a graph is made, torch has forms of some functions (batch_norm) that tell of more."""
    model, other = layers()[:3], layers()[:3]
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service)
    train(*batches(1)[0])
    made = train.report()["captures"]["made"]

    seen = []

    def loss_of(output, target):
        if F.batch_norm is not OWN["batch_norm"] and not seen:
            call = threading.Thread(target=lambda: seen.append(train(*batches(1)[0])))
            call.start()
            call.join()
        return F.cross_entropy(output, target)

    capturing = laneway.train_step(other, loss_of, sgd(other), service)
    capturing(*batches(1)[0])
    assert len(seen) == 1 and train.report()["captures"]["made"] == made


def warning(model, x, y):
    warnings.warn("a short batch", stacklevel=1)
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize("how", ["always", "recorded", "of a category"])
def test_a_warning_that_is_shown_each_time_is_refused(how, service):
    model = net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with warnings.catch_warnings(record=how == "recorded"):
        if how == "of a category":
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", "a short", UserWarning, __name__)
        else:
            warnings.simplefilter("always")
        message = check_refused(
            lambda lane: None if lane.is_eager else trained(lane, warning, model),
            service,
            "warns 'a short batch', by a filter 'always'",
            "which would happen at capture only at test_python_functions.py:",
        )
    assert "outside of the step" in message
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


@pytest.mark.parametrize("action", ["default", "once", "module", "ignore"])
def test_a_warning_that_is_shown_once_is_shown_once(action, service):
    def shown(lane_of):
        globals().pop("__warningregistry__", None)
        getattr(warnings, "onceregistry", {}).clear()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter(action)
            lane_of()
        return [(str(each.message), each.lineno) for each in told if each.filename == __file__]

    eager = shown(lambda: trained(Eager(), warning))
    served = shown(lambda: trained(Served(service), warning))
    assert eager == served and len(eager) == (action != "ignore")


def test_warnings_that_the_step_records_itself(service):
    def loss_of(model, x, y):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.warn("a short batch", stacklevel=1)
        return F.cross_entropy(model(x), y) * len(told)

    check_equal(lambda lane: trained(lane, loss_of), service)


def test_a_warning_that_is_an_error_is_the_users(service):
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="a short batch"):
        warnings.simplefilter("error")
        trained(Served(service), warning)
