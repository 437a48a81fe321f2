"""Shows that a step uses the present bytes of tensors that are not its own: networks beside it,
weights of a loss, masks, read from any place and changed in any way, without another capture where
the layout stays."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import batches, check_equal, net, sgd

weights = torch.ones(4)


def in_a_global(model):
    def put(value):
        global weights
        weights = value

    put(torch.ones(4))
    return lambda: weights, put


def in_a_closure(model):
    tensor = torch.ones(4)

    def put(value):
        nonlocal tensor
        tensor = value

    return lambda: tensor, put


def in_a_dictionary(model):
    table = {"w": torch.ones(4)}
    return lambda: table["w"], lambda value: table.update(w=value)


def in_an_object(model):
    box = types.SimpleNamespace(w=torch.ones(4))
    return lambda: box.w, lambda value: setattr(box, "w", value)


def in_an_attribute_of_the_module(model):
    model.w = torch.ones(4)
    return lambda: model.w, lambda value: setattr(model, "w", value)


PLACES = [
    in_a_global,
    in_a_closure,
    in_a_dictionary,
    in_an_object,
    in_an_attribute_of_the_module,
]


def by_numpy(tensor: torch.Tensor) -> None:
    tensor.numpy()[3] = 5


CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "in place": lambda tensor: tensor[1:3].mul_(4),
    "through .data": lambda tensor: tensor.data[1].fill_(3),
    "through numpy": by_numpy,
}


def weighted(lane: Any, place: Any, change: Callable[[Any, Any], Any], number: int) -> Any:
    model = net()
    optimizer = sgd(model)
    read, put = place(model)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, weight=read())
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for at, (x, y) in enumerate(batches(5)):
        if at == number:
            change(read(), put)
        losses.append(train(x, y))
    return losses, model


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_that_is_written_between_the_calls(place, how, service):
    def job(lane):
        return weighted(lane, place, lambda tensor, put: CHANGES[how](tensor), 2)

    assert check_equal(job, service).graphs() == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_that_is_replaced_between_the_calls(place, service):
    def job(lane):
        other = torch.tensor([1.0, 2.0, 3.0, 4.0])
        return weighted(lane, place, lambda tensor, put: put(other), 2)

    lane = check_equal(job, service)
    assert lane.graphs() == 1


def test_a_tensor_of_another_layout_is_captured_anew(service):
    def job(lane):
        other = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])[::2]
        return weighted(lane, in_a_closure, lambda tensor, put: put(other), 2)

    assert check_equal(job, service).graphs() == 2


@pytest.mark.parametrize("softly", [True, False])
def test_a_network_beside_the_step_that_the_loop_moves(softly, service):
    def job(lane):
        model = net(nn.BatchNorm1d(16))
        target = copy.deepcopy(model).requires_grad_(False).eval()
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x):
            with torch.no_grad():
                wanted = target(x)
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), wanted + 1)
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for x, _ in batches(6):
            losses.append(train(x))
            if not softly:
                target.load_state_dict(model.state_dict())
                continue
            for mine, theirs in zip(target.parameters(), model.parameters()):
                mine.data.copy_(0.9 * mine.data + 0.1 * theirs.data)
        return losses, model, target

    assert check_equal(job, service).graphs() == 1


def test_a_layer_of_a_network_beside_the_step_that_is_replaced(service):
    def job(lane):
        model, target = net(), net().requires_grad_(False)
        model.forward = lambda x: nn.Sequential.forward(model, x) + target(x)
        predict = lane.inference(model)
        found = []
        for number in range(3):
            if number == 1:
                target[0] = nn.Linear(8, 16)
                target.requires_grad_(False)
            if number == 2:
                target[1] = nn.Tanh()
            found.append(predict(batches(1)[0][0]))
        return found

    check_equal(job, service)


def test_a_mask_in_a_hook(service):
    def job(lane):
        model, masks = net(), {"first": torch.ones(16)}
        model[0].register_forward_hook(lambda module, given, out: out * masks["first"])
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        losses = []
        for number, (x, y) in enumerate(batches(4)):
            masks["first"][number] = 0
            losses.append(train(x, y))
        return losses, model

    assert check_equal(job, service).graphs() == 1


def test_a_tensor_that_decides_is_captured_anew_for_other_values(service):
    def job(lane):
        model, mask = net(), torch.ones(4, dtype=torch.bool)

        def forward(x):
            out = nn.Sequential.forward(model, x)
            return out if mask.all() else out * mask

        model.forward = forward
        predict = lane.inference(model)
        found = []
        for number in range(3):
            found.append(predict(batches(1)[0][0]))
            mask[number] = False
        return found

    check_equal(job, service)


def test_tensors_that_only_a_later_form_uses(service):
    def job(lane):
        model, first, later = net(), torch.ones(4), torch.ones(4)
        model.forward = lambda x: nn.Sequential.forward(model, x) * (first if len(x) > 4 else later)
        predict = lane.inference(model)
        x, found = batches(1)[0][0], []
        for number in range(6):
            found.append(predict(x if number % 2 else x[:4]))
            first[0] += 1
            later.data[1] = number
        return found

    assert check_equal(job, service).graphs() == 2


def test_what_the_step_writes_to_a_tensor_outside_is_there_afterwards(service):
    def job(lane):
        model, average, seen = net(), torch.zeros(4), []
        optimizer = sgd(model)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y) + average.mean()
            loss.backward()
            optimizer.step()
            average.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
            return loss

        losses = []
        for number, (x, y) in enumerate(batches(5)):
            losses.append(train(x, y))
            seen.append(average.clone())
            if number == 2:
                average.zero_()
        return losses, seen, model

    assert check_equal(job, service).graphs() == 1
