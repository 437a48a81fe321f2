"""Shows that an object that keeps references to parameters from before the first call reads and
writes the trained weights through them, as in eager, and that nothing is searched for or brought up
to date where no object keeps any.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.jobs.watch.references import References
from support.both import batches, check_equal, net


class Average:
    """As torch_ema does."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        for average, parameter in zip(self.shadow, self.parameters):
            average.lerp_(parameter, 0.5)

    def swap(self) -> None:
        for average, parameter in zip(self.shadow, self.parameters):
            parameter.data, average.data = average.data.clone(), parameter.data.clone()


class ByName(Average):
    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        super().__init__(model)
        del self.parameters
        self.named = named

    @torch.no_grad()
    def update(self) -> None:
        for average, parameter in zip(self.shadow, self.named.values()):
            average.lerp_(parameter, 0.5)


@dataclasses.dataclass
class OneWeight:
    weight: torch.Tensor


class InSlots:
    __slots__ = ("weights",)

    def __init__(self, model: nn.Module) -> None:
        self.weights = tuple(model.parameters())


def trained(lane: Any, model: nn.Module) -> Any:
    return lane.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("kind", [Average, ByName])
def test_an_average_by_references(service, kind) -> None:
    def job(lane):
        model = net()
        average = kind(model)
        train = trained(lane, model)
        losses = []
        for batch in batches():
            losses.append(train(*batch).item())
            average.update()
        return losses, average.shadow, model

    check_equal(job, service)


def test_an_average_that_is_made_between_the_step_and_its_first_call(service) -> None:
    def job(lane):
        model = net()
        train = trained(lane, model)
        average = Average(model)
        for number, batch in enumerate(batches()):
            train(*batch)
            average.update()
            if number == 3:
                average.swap()
        return average.shadow, model

    check_equal(job, service)


def test_writes_through_a_reference(service) -> None:
    def job(lane):
        model = net()
        kept = OneWeight(model[0].weight)
        train = trained(lane, model)
        norms = []
        for batch in batches():
            train(*batch)
            norms.append(kept.weight.norm().item())
            with torch.no_grad():
                kept.weight.clamp_(-0.3, 0.3)
        return norms, model

    check_equal(job, service)


def test_slots_and_the_report(service) -> None:
    model = net()
    kept = InSlots(model)
    train = laneway.train_step(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), service
    )
    train(*batches(1)[0])
    assert train.report()["references"] == ["InSlots"]
    assert torch.equal(kept.weights[0], train.state_dict()["model"]["0.weight"])


def test_nothing_is_looked_for_where_there_is_nothing(service, monkeypatch) -> None:
    def search(self):
        raise AssertionError("gc is asked")

    monkeypatch.setattr(References, "_owners", search)
    for model in (net(), nn.Sequential(nn.Flatten(), nn.Linear(8, 4)), Recurrent()):
        optimizer = torch.optim.AdamW(model.parameters())
        train = laneway.train_step(model, F.cross_entropy, optimizer, service)
        for batch in batches(2):
            train(*batch)
        assert train.report()["references"] == []


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(8, 6), nn.Linear(6, 4)
        self.tied = self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.layer(x)[0])


def test_lists_and_variables_of_a_script_are_no_objects(service) -> None:
    model = net()
    parameters = list(model.parameters())
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.2}]
    last = [parameter := each for each in parameters][-1]
    train = laneway.train_step(model, F.cross_entropy, torch.optim.SGD(groups, lr=0.1), service)
    train(*batches(1)[0])
    assert train.report()["references"] == [] and parameter is last


def test_a_scripted_part_is_refused_in_its_own_words(service) -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(8, 6)), nn.Linear(6, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = laneway.train_step(model, F.cross_entropy, optimizer, service)
    with pytest.raises(laneway.CaptureError, match="TorchScript"):
        train(*batches(1)[0])
