"""Shows that what a step reads of a tensor's memory, with no operator, is eager's or refused:
lists, arrays, text, addresses, of tensors from outside of it and of its own."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import laneway
from support.both import check_equal, check_refused, net, trained


def _saved(tensor: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


READS = {
    "tolist": lambda tensor: tensor.tolist()[0],
    "numpy": lambda tensor: float(tensor.numpy()[0]),
    "an array": lambda tensor: float(np.asarray(tensor)[0]),
    "from_dlpack": lambda tensor: float(np.from_dlpack(tensor)[0]),
    "pickle": lambda tensor: float(pickle.dumps(tensor).count(b"\x80\x3f")),
    "torch.save": lambda tensor: float(_saved(tensor).count(b"\x80\x3f")),
}
TEXTS = {
    "str": lambda tensor: float(str(tensor).count("1")),
    "repr": lambda tensor: float(repr(tensor).count("1")),
    "a format": lambda tensor: float(f"{tensor}".count("1")),
}
# Of tensors from outside these are bits, or refused.
OTHERS = {
    "tolist of its data": lambda tensor: tensor.data.tolist()[0],
    "numpy of a part of its data": lambda tensor: float(tensor.data[1:].numpy()[0]),
    "an address": lambda tensor: 1.0 if tensor.data_ptr() == 0 else 2.0,
    "the storage": lambda tensor: float(tensor.untyped_storage()[3]),
    "the typed storage": lambda tensor: float(tensor.storage()[0]),
    "deepcopy": lambda tensor: float(copy.deepcopy(tensor)[0]),
    "an iteration": lambda tensor: next(float(part) for part in tensor),
    "in": lambda tensor: 2.0 if 1.0 in tensor else 3.0,
}
CHANGES = {
    "another tensor": lambda box, value: setattr(box, "coin", torch.full((2,), value)),
    "a write": lambda box, value: box.coin.fill_(value),
    "a write through numpy": lambda box, value: box.coin.numpy().fill(value),
}


def _reads_outer(read: Any, change: Any) -> Any:
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(coin=torch.zeros(2))

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * (1 + read(box.coin))

        return trained(lane, loss_of, between=lambda number: change(box, float(number % 2)))

    return job


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", READS | TEXTS)
def test_of_a_tensor_from_outside(what, change, service):
    lane = check_equal(_reads_outer((READS | TEXTS)[what], CHANGES[change]), service)
    assert lane.graphs() == 2 or change == "another tensor"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", OTHERS)
def test_of_a_tensor_from_outside_by_other_ways(what, change, service):
    with contextlib.suppress(laneway.CaptureError):
        check_equal(_reads_outer(OTHERS[what], CHANGES[change]), service)


def test_many_bytes_are_refused(service):
    def job(lane: Any) -> Any:
        table = torch.ones(1 << 15)

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * table.tolist()[0]

        return trained(lane, loss_of)

    check_refused(job, service, r"reads table, of 131,072 bytes, by tolist\(\)", "65,536 bytes")


def test_a_sparse_one_is_refused(service):
    def job(lane: Any) -> Any:
        table = torch.eye(4).to_sparse()

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * str(table).count("1.")

        return trained(lane, loss_of)

    check_refused(job, service, r"reads table, sparse, nested or quantized, by repr\(\)")


def test_what_is_written_through_the_array_is_refused(service):
    def job(lane: Any) -> Any:
        box = types.SimpleNamespace(seen=torch.zeros(2))

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            box.seen.numpy()[0] += 1
            return F.cross_entropy(model(x), y)

        return trained(lane, loss_of)

    check_refused(job, service, "the data of box.seen")


OWN = {
    "a parameter": lambda model, x, out: model[0].bias,
    "a buffer": lambda model, x, out: model.coin,
    "an argument": lambda model, x, out: x,
    "a result": lambda model, x, out: out,
}


@pytest.mark.parametrize("whose", OWN)
@pytest.mark.parametrize("what", READS | TEXTS | OTHERS)
def test_of_its_own_tensors(what, whose, service):
    reads = READS | TEXTS | OTHERS

    def job(lane: Any) -> Any:
        model = net()
        model.register_buffer("coin", torch.zeros(2))

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = model(x)
            own = OWN[whose](model, x, out).detach().flatten()
            return F.cross_entropy(out, y) * (1 + abs(reads[what](own)))

        return trained(lane, loss_of, model)

    with contextlib.suppress(laneway.CaptureError):
        check_equal(job, service)


def test_a_weight_by_another_way(service):
    """Which no module gives it."""

    def job(lane: Any) -> Any:
        model = net()
        weights = list(model.parameters())

        def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x), y) * (1 + abs(weights[1].detach().tolist()[0]))

        return trained(lane, loss_of, model)

    with contextlib.suppress(laneway.CaptureError):
        check_equal(job, service)
