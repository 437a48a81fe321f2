"""Shows that an inference runs in evaluation mode, and with mode="as_is" in each module's own mode:
results, the statistics that it moves in the step's job and the generator are those of eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same, eager_step

LOSS = nn.CrossEntropyLoss()
X, Y = torch.linspace(-1, 1, 48).reshape(8, 6), torch.arange(8) % 3


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    )


def made() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = net()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def run(train: Any, model: nn.Module, infer: Any, read: Any) -> list[Any]:
    """Trains and samples in turn, in the modes of a script; everything that is left."""
    found = []
    torch.manual_seed(5)
    for mode in ("train", "eval", "part", "train"):
        model.train(mode != "eval")
        if mode == "part":
            model[1].eval()
        found.append(infer(X[:5]))
        model.train()
        found += [train(X, Y).detach(), infer(X), copy.deepcopy(read())]
    return [*found, torch.get_rng_state()]


def test_as_is_samples_as_a_script_in_training_mode_does(service):
    model, optimizer = made()
    with torch.no_grad():
        model(X[:1].expand(2, 6))  # so that the statistics are not those of the beginning
        twin = copy.deepcopy(model)
    twin_optimizer = torch.optim.AdamW(twin.parameters(), lr=0.01)

    def sample(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return twin(x)

    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return eager_step(twin, LOSS, twin_optimizer, (x, y))

    expected = run(train, twin, sample, lambda: dict(twin.state_dict()))
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step.prepare(X, Y)
        infer = laneway.inference(step, mode="as_is")
        found = run(step, model, infer, lambda: step.state_dict()["model"])
        # The step; eight rows in training mode; five in training, evaluation and mixed mode.
        assert len(step.report()["graphs"]) == 1 + 4
    assert_same(expected, found)
    assert not torch.equal(found[3]["1.running_mean"], found[7]["1.running_mean"])


def test_a_model_of_its_own_draws_masks_as_is(service):
    model = net()
    twin = copy.deepcopy(model)
    torch.manual_seed(8)
    with torch.no_grad():
        expected = [[twin(X) for _ in range(3)], dict(twin.named_buffers())["1.running_var"]]
    after = torch.get_rng_state()
    torch.manual_seed(8)
    with laneway.inference(model, service, mode="as_is") as infer:
        found = [infer(X) for _ in range(3)]
        assert_same(expected[0], found)
        assert_same(after, torch.get_rng_state())
        assert not torch.equal(found[0], found[1])
        model.eval(), twin.eval()
        with torch.no_grad():
            assert_same(twin(X), infer(X), "with the statistics that the calls before moved")


def test_evaluation_is_the_mode_of_an_inference_that_is_not_asked_for_another(service):
    model = net().train()
    with torch.no_grad():
        expected = copy.deepcopy(model).eval()(X)
    with laneway.inference(model, service) as infer:
        for change in (model.train, model.eval, model.train):
            change()
            before = torch.get_rng_state()
            assert_same(expected, infer(X))
            assert_same(before, torch.get_rng_state())
        assert model.training


def test_an_attached_inference_takes_the_modes_of_its_own_model(service):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service, name="d", shared=True) as step:
        step(X, Y)
        twin = net()
        step.sync_to(twin)
        with laneway.attach("d", service) as handle:
            infer = handle.inference(net(), mode="as_is")
            torch.manual_seed(9)
            with torch.no_grad():
                expected = [twin(X), twin(X)]
            torch.manual_seed(9)
            assert_same(expected, [infer(X), infer(X)])
        assert_same(dict(twin.state_dict()), step.state_dict()["model"])


def test_another_mode_is_refused_by_name(service):
    with pytest.raises(laneway.InvalidInput, match="mode = 'train': give one of 'eval', 'as_is'"):
        laneway.inference(net(), service, mode="train")
