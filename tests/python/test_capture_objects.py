"""Objects that torch's pytree does not know: in a result they come back with the graph's tensors in
them, in an argument they are refused before anything is done to them."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from laneway.capture.capture import capture_inference
from laneway.errors import CaptureError
from support.eager import assert_same


class Cache:
    """Grows by what it is given, as the caches of language models do."""

    def __init__(self) -> None:
        self.entries: list[torch.Tensor] = []
        self.seen = 0

    def add(self, entry: torch.Tensor) -> None:
        self.entries.append(entry)
        self.seen += len(entry)


class Stubborn(Cache):
    """Cannot be pickled once its state was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse = lambda: None


class Model(nn.Module):
    """Returns its output, and a cache with the output twice and something else."""

    def __init__(self, kind: type[Cache] = Cache) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.kind = kind

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> Any:
        cache = self.kind() if cache is None else cache
        y = self.linear(x)
        for entry in (y, y * 2, y):
            cache.add(entry)
        return {"y": y, "cache": cache}


def test_a_returned_object_holds_the_tensors_of_each_call() -> None:
    model = Model()
    inputs = [torch.randn(5, 4) for _ in range(2)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
    with laneway.embedded("64MiB") as service, laneway.inference(model, service) as infer:
        ours = [infer(x) for x in inputs]
    for theirs, mine in zip(expected, ours):
        assert type(mine["cache"]) is Cache and mine["cache"].seen == 15
        assert_same(theirs["cache"].entries, mine["cache"].entries)
        assert mine["cache"].entries[0] is mine["cache"].entries[2]
    assert ours[0]["cache"] is not ours[1]["cache"]


def test_a_returned_object_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(CaptureError, match="returns a Stubborn that holds tensors"):
        capture_inference(Model(Stubborn), (torch.randn(5, 4),))


def test_objects_without_tensors_are_handed_on_as_they_are() -> None:
    marker = Cache()

    class Marked(Model):
        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x), marker, self.linear, Cache.add

    model = Marked()
    captured = capture_inference(model, (torch.randn(5, 4),))
    rebuilt = captured.outputs.rebuild([torch.zeros(5, 3)])
    assert rebuilt[1] is marker and rebuilt[2] is model.linear and rebuilt[3] is Cache.add


@pytest.mark.parametrize("kind", [Cache, Stubborn])
def test_an_argument_that_hides_tensors_is_refused_and_left_alone(kind: type[Cache]) -> None:
    cache = kind()
    cache.add(torch.ones(5, 3))
    with pytest.raises(CaptureError, match=r"argument 1 is a .* that holds tensors"):
        capture_inference(Model(), (torch.randn(5, 4), cache))
    assert cache.seen == 5 and len(cache.entries) == 1


def test_a_mapping_that_pytree_does_not_know_is_told_how_to_be_passed() -> None:
    batch = UserDict(x=torch.randn(5, 4))
    with pytest.raises(CaptureError, match=r"pass \*\*argument or dict\(argument\)"):
        capture_inference(Model(), (batch,))
    captured = capture_inference(Model(), (), dict(batch))
    assert len(captured.input_spec) == 1
