"""Shows that steps which are made like one another are captured once and train as eager does, each
with its own weights, learning rates and random draws; that whatever a graph has as a constant is
compared, and a difference refused in words; that a capture without a job leaves nothing in the
service; and that of jobs with equal graphs, however they were captured, one is probed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture import uses
from laneway.jobs import step_capture
from support.eager import assert_same, eager_step

SETTINGS = {"scale": 1.0}


class Net(nn.Module):
    """Reads a plain attribute, a tensor in one, a dictionary and a global."""

    width = 16

    def __init__(self, p: float = 0.25) -> None:
        super().__init__()
        self.first = nn.Linear(6, self.width)
        self.norm = nn.BatchNorm1d(self.width)
        self.drop = nn.Dropout(p)
        self.last = nn.Linear(self.width, 3)
        self.slope = 0.1
        self.mask = torch.ones(self.width)
        self.options = {"bias": [1.0, 2.0]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.norm(self.first(x)), self.slope) * self.mask
        return self.last(self.drop(x)) * SETTINGS["scale"] + self.options["bias"][1]


def loss_of(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out, labels)


def batch(seed: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=generator)
    return x, torch.randint(0, 3, (rows,), generator=generator)


def adam(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), **options)


@pytest.fixture
def captures(monkeypatch) -> list[int]:
    """One entry for each capture of a training step."""
    made: list[int] = []
    real = step_capture.capture_train_step

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(step_capture, "capture_train_step", counted)
    return made


class Pair:
    """A step, and plain eager training of a copy of its model with the same seed."""

    def __init__(self, service: Any, seed: int, like: Any = None, **options: Any) -> None:
        torch.manual_seed(seed)
        self.model = Net()
        self.twin = copy.deepcopy(self.model)
        self.optimizer, self.other = adam(self.model, **options), adam(self.twin, **options)
        self.step = laneway.train_step(
            self.model, loss_of, self.optimizer, service, name=f"seed-{seed}", like=like
        )
        self.seed = seed

    def train(self, *rows: int) -> None:
        """The same batches on both sides, from the same state of the generator."""
        batches = [batch(self.seed * 100 + n, size) for n, size in enumerate(rows)]
        torch.manual_seed(self.seed)
        expected = [eager_step(self.twin, loss_of, self.other, b).detach() for b in batches]
        torch.manual_seed(self.seed)
        assert_same(expected, [self.step(*b) for b in batches], "losses")
        state = self.step.state_dict()
        assert_same(self.twin.state_dict(), state["model"], "model")
        assert_same(self.other.state_dict(), state["optimizer"], "optimizer")


def probes(steps: list[Any]) -> int:
    return sum(graph["probes"] for step in steps for graph in step.report()["graphs"])


def test_steps_like_one_are_captured_and_probed_once_and_train_as_eager(service, captures) -> None:
    first = Pair(service, 1, lr=1e-2)
    first.train(8, 8)
    pairs = [first]
    for seed in range(2, 6):
        pairs.append(Pair(service, seed, like=pairs[-1].step, lr=seed * 1e-3))
        pairs[-1].train(8, 8, 8)
    assert len(captures) == 1
    steps = [pair.step for pair in pairs]
    assert probes(steps) == 1
    assert [step.report()["captures_taken"] for step in steps] == [0, 1, 1, 1, 1]
    shared = [step.report()["graphs"][0]["shared"] for step in steps]
    assert shared[0] == {"resolved": False, "planned": False, "jobs": 5}
    assert shared[1:] == [{"resolved": True, "planned": True, "jobs": 5}] * 4
    # A learning rate that changes from call to call is each step's own.
    for group in (*pairs[2].optimizer.param_groups, *pairs[2].other.param_groups):
        group["lr"] = 0.5
    pairs[2].train(8, 8)
    pairs[3].train(8)
    assert len(captures) == 1


def test_other_forms_of_call_are_shared_too_also_of_a_step_that_was_closed(
    service, captures
) -> None:
    first = Pair(service, 1)
    first.train(8, 4)
    first.step.close()
    second = Pair(service, 2, like=first.step)
    second.train(8, 4, 8)
    assert len(captures) == 2
    second.train(8, 5)
    assert len(captures) == 3, "a form that no step like it has met"
    third = Pair(service, 3, like=second.step)
    third.train(8, 5, 4)
    assert len(captures) == 3


def _set(path: str, value: Any) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        *parts, name = path.split(".")
        for part in parts:
            model = getattr(model, part)
        setattr(model, name, value)

    return change


def _hook(model: nn.Module) -> None:
    model.last.register_forward_hook(lambda _, __, out: out * 2)


CHANGES: list[tuple[str, Callable[[nn.Module], Any], dict[str, Any]]] = [
    ("model.drop.p is 0.5 and was 0.25", _set("drop.p", 0.5), {}),
    ("model.slope is 0.2 and was 0.1", _set("slope", 0.2), {}),
    ("model.norm.momentum is 0.3 and was 0.1", _set("norm.momentum", 0.3), {}),
    (r"model.options\['bias'\]\[1\] is 3.0 and was 2.0", _set("options", {"bias": [1.0, 3.0]}), {}),
    ("of model.mask the content", _set("mask", torch.arange(16.0)), {}),
    ("of model.last.weight requires_grad is False", lambda m: m.last.requires_grad_(False), {}),
    ("the number of model.last._forward_hooks is 1 and was 0", _hook, {}),
    ("the training mode of model.norm is False", lambda m: m.norm.eval(), {}),
    (r"\['weight_decay'\] is 0.1 and was 0.01", lambda m: None, {"weight_decay": 0.1}),
    (r"\['betas'\] is \(0.8, 0.9\) and was \(0.9, 0.999\)", lambda m: None, {"betas": (0.8, 0.9)}),
    (r"\['eps'\] is 0.001 and was 1e-08", lambda m: None, {"eps": 1e-3}),
    (r"\['fused'\] is True and was None", lambda m: None, {"fused": True}),
]


def test_a_difference_in_what_the_graph_has_as_constant_is_refused_by_name(
    service, captures
) -> None:
    first = Pair(service, 1)
    first.train(8)
    jobs = len(service.status()["jobs"])
    for match, change, options in CHANGES:
        model = Net()
        change(model)
        step = laneway.train_step(model, loss_of, adam(model, **options), service, like=first.step)
        with pytest.raises(laneway.InvalidInput, match=match):
            step(*batch(1))
    assert len(captures) == 1
    assert len(service.status()["jobs"]) == jobs, "a step that is refused offers no job"


def test_functions_and_what_they_read_are_constants_too(service, monkeypatch) -> None:
    def closure_of(scale: float) -> Callable[..., torch.Tensor]:
        def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * scale
            loss.backward()
            optimizer.step()
            return loss

        return closure

    def made(scale: float, like: Any = None, loss: Any = None) -> Any:
        torch.manual_seed(1)
        model = Net()
        closure = None if loss is not None else closure_of(scale)
        return laneway.train_step(model, loss, adam(model), service, closure=closure, like=like)

    first = made(2.0)
    expected = first(*batch(1))
    torch.manual_seed(1)
    equal = made(2.0, like=first)
    assert_same(expected, equal(*batch(1)), "the loss of an equal closure")
    with pytest.raises(laneway.InvalidInput, match=r"'scale', which the closure reads is 3\.0"):
        made(3.0, like=first)(*batch(1))
    with pytest.raises(laneway.InvalidInput, match="the loss function is"):
        made(2.0, like=first, loss=loss_of)(*batch(1))
    monkeypatch.setitem(SETTINGS, "scale", 0.5)
    with pytest.raises(laneway.InvalidInput, match=r"'SETTINGS'.*\['scale'\] is 0.5 and was 1.0"):
        made(2.0, like=first)(*batch(1))
    monkeypatch.setitem(SETTINGS, "scale", 1.0)
    monkeypatch.setattr(Net, "width", 8)
    with pytest.raises(laneway.InvalidInput, match="is 8 and was 16"):
        made(2.0, like=first)(*batch(1))


def test_several_models_and_gradients_that_stay_are_shared(service, captures) -> None:
    """Micro-batches over two calls, with the optimizer in the second: gradients are state."""

    def accumulate(models: Any, optimizers: Any, x: torch.Tensor, last: bool) -> torch.Tensor:
        loss = models[1](models[0](x)).square().mean()
        loss.backward()
        if last:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return loss

    def parts(seed: int, rate: float) -> tuple[list[nn.Module], list[torch.optim.Optimizer]]:
        torch.manual_seed(seed)
        models = [nn.Linear(6, 5), nn.Linear(5, 2)]
        return models, [torch.optim.SGD(m.parameters(), lr=rate, momentum=0.9) for m in models]

    like, seen = None, []
    for seed, rate in ((1, 0.1), (2, 0.2), (3, 0.3)):
        models, optimizers = parts(seed, rate)
        twins, others = parts(seed, rate)
        like = laneway.train_step(
            models, None, optimizers, service, closure=accumulate, keep_gradients=True, like=like
        )
        for number in range(4):
            x = batch(number)[0]
            last = number % 2 == 1
            expected = accumulate(twins, others, x, last).detach()
            assert_same(expected, like(x, last), "loss")
        state = like.state_dict()
        assert_same([twin.state_dict() for twin in twins], state["model"], "models")
        assert_same([other.state_dict() for other in others], state["optimizer"], "optimizers")
        seen.append(len(captures))
    assert seen == [2, 2, 2]


def test_a_capture_offers_no_job_and_the_call_uses_the_weights_of_then(service, captures) -> None:
    before = service.status()
    pair = Pair(service, 1)
    pair.step.capture(*batch(1))
    pair.step.capture(*batch(1, rows=4))
    status = service.status()
    assert [job["id"] for job in status["jobs"]] == [job["id"] for job in before["jobs"]]
    assert status["pool"]["persistent_bytes"] == before["pool"]["persistent_bytes"]
    with pytest.raises(laneway.InvalidInput, match="no job"):
        pair.step.report()
    with torch.no_grad():
        for model in (pair.model, pair.twin):
            model.first.weight.mul_(0.5)
    pair.train(8, 4, 8)
    assert len(captures) == 2
    pair.step.capture(*batch(1, rows=3))  # the step has a job: prepare()
    assert len(pair.step.report()["graphs"]) == 3


def test_what_changed_since_the_capture_is_captured_anew(service, captures) -> None:
    pair = Pair(service, 1)
    pair.step.capture(*batch(1))
    pair.model.drop.p = pair.twin.drop.p = 0.5
    pair.train(8)
    assert len(captures) == 2


def test_jobs_that_were_captured_each_for_itself_are_resolved_and_probed_once(service) -> None:
    pairs = [Pair(service, seed, lr=seed * 1e-3) for seed in range(1, 9)]
    for pair in pairs:
        pair.train(8, 8)
    steps = [pair.step for pair in pairs]
    assert probes(steps) == 1
    assert {step.report()["graphs"][0]["shared"]["jobs"] for step in steps} == {8}
    assert sum(step.report()["graphs"][0]["shared"]["resolved"] for step in steps) == 7


def test_like_takes_a_step(service) -> None:
    model = Net()
    with pytest.raises(laneway.InvalidInput, match="like is a Net: give a step"):
        laneway.train_step(model, loss_of, adam(model), service, like=model)


def test_an_empty_environment_is_found(monkeypatch) -> None:
    monkeypatch.setitem(uses._OF_PROCESS, "environment", empty := {})
    assert uses.Place(None, "environment", None, "").find([], {}) is empty
