"""Shows that verify=N finds steps that are silently otherwise than eager execution, in the first
verified iteration in which they are, and names the first value that differs; that honest steps pass
bit for bit, with every kind of state; and that a verified step leaves what an unverified one does:
in Python, in the random generators, in its arguments.
"""

from __future__ import annotations

import copy
import ctypes
import decimal
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.errors import InvalidInput, VerificationError
from laneway.jobs.verify.bit_compare import first_difference
from support.both import batches, check_equal, net, sgd
from support.eager import assert_same


def trained(model: nn.Module, service: Any, scale: Any, **options: Any) -> Any:
    """A step whose loss is multiplied by scale()."""
    optimizer = sgd(model)

    @laneway.step(model, optimizer, service=service, **options)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * scale()
        loss.backward()
        optimizer.step()
        return loss

    return train


# What is silently different is found.


C = ctypes.CDLL(None)


def drawn() -> float:
    """Another number each time, by C code, which no capture sees."""
    return C.lrand48() % 1000 / 1000 + 0.5


@pytest.fixture
def precision() -> Iterator[decimal.Context]:
    """A setting that is asked for by a call, which no capture sees."""
    with decimal.localcontext() as context:
        context.prec = 1
        yield context


def scale() -> float:
    return {1: 1.0, 2: 2.0}[decimal.getcontext().prec]


def test_a_step_that_draws_by_c_code_is_found_at_once(service) -> None:
    train = trained(net(), service, drawn, verify=True)
    with pytest.raises(VerificationError, match=r"iteration 1 of this step .* the result") as told:
        train(*batches(1)[0])
    error = told.value
    assert error.iteration == 1 and error.name == "the result" and error.index == ()
    assert error.given != error.expected
    assert repr(error.given) in str(error) and repr(error.expected) in str(error)


@pytest.mark.parametrize(("verify", "found"), [(True, 4), (3, 3), (1, 3)])
def test_a_setting_that_changes_is_found_in_the_next_verified_iteration(
    service, precision, verify, found
) -> None:
    train = trained(net(), service, scale, verify=verify)
    iteration = 0
    with pytest.raises(VerificationError) as told:
        for iteration, batch in enumerate(batches(8), start=1):
            if iteration == 3:
                precision.prec = 2
            train(*batch)
    assert iteration == told.value.iteration == found


def test_a_difference_in_the_state_alone_is_found_and_named(service) -> None:
    model = net()
    optimizer = sgd(model)

    @laneway.step(model, optimizer, service=service, verify=True)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            model[2].bias[3] += drawn()
        return loss

    with pytest.raises(VerificationError, match=r"model/2\.bias at \[3\].*1 of 4 values") as told:
        train(*batches(1)[0])
    assert (told.value.name, told.value.index) == ("model/2.bias", (3,))


def test_a_submitted_iteration_is_verified(service) -> None:
    train = trained(net(), service, drawn, verify=True)
    with pytest.raises(VerificationError):
        train.submit(*batches(1)[0])


def test_an_inference_that_asks_for_a_setting_is_found(service, precision) -> None:
    model, x = net(), torch.randn(3, 8)
    predict = laneway.inference(model, service, closure=lambda m, x: m(x) * scale(), verify=True)
    predict(x)
    predict(x)
    precision.prec = 2
    predict(x)
    with pytest.raises(VerificationError, match="iteration 4 of this inference"):
        predict(x)


def test_eager_execution_that_raises_is_a_difference(service, precision) -> None:
    train = trained(net(), service, scale, verify=True)
    train(*batches(1)[0])
    precision.prec = 3
    with pytest.raises(VerificationError, match="eager execution, which raises KeyError"):
        train(*batches(1)[0])


def test_an_error_of_both_is_the_job_s(service) -> None:
    model = nn.Embedding(3, 4)
    predict = laneway.inference(model, service, verify=1)
    predict(torch.tensor([2]))
    with pytest.raises(laneway.Error, match="index") as told:
        predict(torch.tensor([7]))
    assert not isinstance(told.value, VerificationError)


# Honest steps pass, with eager's bits.


class Everything(nn.Module):
    """Layers that draw, that have buffers, and that share weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.tied = self.last
        self.register_buffer("count", torch.zeros(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        x = self.drop(torch.relu(self.norm(self.first(x))))
        return self.tied(self.last(x)) + torch.randn(x.shape) * 0.1


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("random", ["shared", "own"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_honest_steps_pass_and_have_the_bits_of_unverified_ones(service, name, random) -> None:
    def run(**options: Any) -> Any:
        torch.manual_seed(3)
        model = Everything()
        optimizer = OPTIMIZERS[name](model.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        losses = []
        with laneway.train_step(
            model, F.cross_entropy, optimizer, service=service, random=random, **options
        ) as train:
            for batch in batches(9):
                losses.append(train(*batch))
                schedule.step()
            return losses, train.state_dict(), torch.get_rng_state()

    assert_same(run(), run(verify=2))


def test_a_verified_step_has_eager_s_bits(service) -> None:
    def job(lane):
        model = Everything()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        train = lane.train_step(model, F.cross_entropy, optimizer, verify=1)
        losses = [train(*batch).detach() for batch in batches(5)]
        return losses, dict(model.named_buffers()), model.state_dict(), optimizer.state_dict()

    check_equal(job, service)


def test_gradients_that_are_kept_between_calls(service) -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @laneway.step(model, optimizer, service=service, verify=1)
    def train(x, y, last):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if last:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss

    for number, batch in enumerate(batches(6)):
        train(*batch, last=number % 3 == 2)


def test_a_step_without_an_optimizer_leaves_its_gradients(service) -> None:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = batches(1)[0]

    @laneway.step(model, None, service=service, verify=1)
    def gradients(x, y):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    first = gradients(x, y).item()
    optimizer.step(lambda: gradients(x, y))
    assert gradients(x, y).item() < first


def test_two_models_and_a_loss_scaler(service) -> None:
    models = [net(), nn.Linear(4, 4)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, fused=True) for m in models]
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    @laneway.step(models, optimizers, service=service, verify=1)
    def train(x, y):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.cross_entropy(models[1](models[0](x)), y)
        scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        return loss

    for batch in batches(6):
        train(*batch)
    assert scaler.get_scale() == 64.0


def test_an_inference_of_a_step_is_verified_with_the_weights_of_then(service) -> None:
    model = Everything()
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service=service)
    data = batches(4)
    train(*data[0])
    predict = laneway.inference(train, mode="as_is", verify=1)
    for x, y in data:
        predict(x)
        train(x, y)


def test_weights_that_stay_with_the_job_are_verified(service) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = laneway.train_step(
        model, F.cross_entropy, optimizer, service=service, sync="manual", verify=1
    )
    before = copy.deepcopy(model.state_dict())
    for batch in batches(4):
        train(*batch)
    with pytest.warns(UserWarning, match="older|stale|sync_to|old"):
        assert_same(before, model.state_dict())


# What the second run does in Python is put back.


def test_what_the_step_changes_in_python_happens_once(service) -> None:
    seen = types.SimpleNamespace(first=True, scale=1.0, tables={})
    model = net()
    optimizer = sgd(model)

    @laneway.step(model, optimizer, service=service, verify=1)
    def train(x, y):
        if seen.first:
            seen.first, seen.scale = False, seen.scale * 2
        if len(x) not in seen.tables:
            seen.tables[len(x)] = len(seen.tables)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * seen.scale
        loss.backward()
        optimizer.step()
        return loss

    for batch in batches(4):
        train(*batch)
        assert (seen.first, seen.scale, list(seen.tables.values())) == (False, 2.0, [0])


def test_arguments_and_tensors_outside_are_written_once(service) -> None:
    model, total, given = net(), torch.zeros(4), torch.zeros(4)
    optimizer = sgd(model)

    @laneway.step(model, optimizer, service=service, verify=1)
    def train(x, y, counts):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        counts += 1
        total.add_(1)
        return loss

    for batch in batches(4):
        train(*batch, given)
    assert total.tolist() == given.tolist() == [4.0] * 4


def test_the_gradient_of_an_input_comes_once(service) -> None:
    def job(**options: Any) -> Any:
        torch.manual_seed(3)
        model = net()
        x, y = batches(1)[0]
        x.requires_grad_()
        options |= {"service": service}
        laneway.train_step(model, F.cross_entropy, sgd(model), **options)(x, y)
        return x.grad

    assert_same(job(), job(verify=1))


def test_the_user_s_model_stays_as_it_is(service) -> None:
    model = Everything()
    model.first.weight.note = "of the user's"
    parts = [id(t) for t in [*model.parameters(), *model.buffers()]]
    train = laneway.train_step(model, F.cross_entropy, sgd(model), service=service, verify=1)
    for batch in batches(3):
        train(*batch)
    assert parts == [id(t) for t in [*model.parameters(), *model.buffers()]]


# What it does not take.


@pytest.mark.parametrize("verify", [-1, 0.5, "yes"])
def test_another_choice_is_refused(verify) -> None:
    with pytest.raises(InvalidInput, match="verify = "):
        laneway.train_step(net(), F.cross_entropy, sgd(net()), verify=verify)
    with pytest.raises(InvalidInput, match="verify = "):
        laneway.inference(net(), verify=verify)


def test_a_job_that_others_may_change_is_not_verified() -> None:
    with pytest.raises(InvalidInput, match="verify is for a job that one client has"):
        laneway.train_step(net(), F.cross_entropy, sgd(net()), verify=True, shared=True)


# The comparison.


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), None),
        (torch.tensor([1.0, -0.0]), torch.tensor([1.0, 0.0]), r"x at \[1\]: .* -0\.0, .* 0\.0 \(1"),
        (torch.tensor(float("nan")), -torch.tensor(float("nan")), None),
        (torch.tensor([[1, 2]]), torch.tensor([[1, 3]]), r"x at \[0, 1\]: .* 2, .* 3"),
        (torch.tensor([1 + 2j]), torch.tensor([1 - 2j]), r"x at \[0\]"),
        (torch.ones(2), torch.ones(3), "the shape of x"),
        (torch.ones(2), torch.ones(2).half(), "the dtype of x"),
        (torch.zeros(0), torch.zeros(0), None),
        (torch.ones(2, 3).t(), torch.ones(3, 2), None),
        (0.0, -0.0, "x: the graph gives 0.0, eager execution -0.0"),
        (True, 1, "x: the graph gives True"),
        (torch.ones(1), None, "x: the graph gives a Tensor"),
        (object(), object(), None),
    ],
)
def test_the_first_difference(given, expected, words) -> None:
    found = first_difference({"x": given}, {"x": expected})
    if words is None:
        assert found is None
    else:
        assert found is not None
        with pytest.raises(ValueError, match=words):
            raise ValueError(found.words)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2])
def test_the_bits_of_every_dtype(dtype) -> None:
    a, b = torch.zeros(2).to(dtype), torch.tensor([0.0, -0.0]).to(dtype)
    assert first_difference({"x": a}, {"x": b}) is not None
    assert first_difference({"x": a}, {"x": a.clone()}) is None
