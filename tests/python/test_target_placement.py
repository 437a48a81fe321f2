"""What of a step captured for CUDA stays on the CPU there: the numbers that optimizers read in
every step, as in eager execution, and what counts them, and nothing else. What a step reads from
the device it waits for; only what the user asks for is read so.

Steps are captured for CUDA and shown to the adaptor's placement (support/placement.py). That the
iterations copy and wait accordingly is shown on the fake CUDA in test_fake_cuda_hot_path.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from laneway.capture.capture import CapturedJobGraph, capture_train_step
from laneway.graph.target import Target
from support import scaled_training
from support.placement import READ_NUMBER, Placed, placed

pytestmark = pytest.mark.embedded_only("needs no service")

Make = Callable[[Any], torch.optim.Optimizer]


def adams(**options: Any) -> list[Make]:
    return [
        lambda parameters, make=make: make(parameters, lr=0.01, **options)
        for make in (torch.optim.Adam, torch.optim.AdamW)
    ]


def perceptron() -> nn.Module:
    """With a counter of its own that nobody reads: batch norm's."""
    return nn.Sequential(
        nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 5)
    )


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def clipped(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss, norm


def captured(make: Make, closure: Any = plain, model: nn.Module | None = None) -> CapturedJobGraph:
    model = perceptron() if model is None else model
    batch = (torch.randn(8, 12), torch.randint(0, 5, (8,)))
    return capture_train_step(
        model, None, make(model.parameters()), batch, closure=closure, target=Target.cuda
    )


def check_nothing_on_cpu(found: Placed) -> None:
    assert found == Placed(slots=[], nodes=[], waiting=[])


def check_counters(job: CapturedJobGraph, counters: set[str], operators: set[str]) -> None:
    """Those entries of the optimizer's state, all of them, with the constants that they are
    combined with, are on the CPU; what runs there are those operators and reads."""
    found = placed(job)
    expected = {
        slot.path for slot in job.slots if slot.path[0] == "optimizer" and slot.path[-1] in counters
    }
    assert len(expected) == 6 * len(counters)
    constants = {slot.path for slot in job.slots if slot.path[0] == "constant"}
    assert expected <= set(found.slots) <= expected | constants
    assert {node.op for node in found.nodes} == operators | {READ_NUMBER}
    assert found.waiting == []


@pytest.mark.parametrize("closure", [plain, clipped])
@pytest.mark.parametrize("make", adams() + adams(foreach=True) + adams(amsgrad=True))
def test_counters_of_a_foreach_adam_stay_on_the_cpu(make: Make, closure: Any) -> None:
    check_counters(captured(make, closure), {"step"}, {"aten::_foreach_add_.Tensor"})


@pytest.mark.parametrize("make", adams(foreach=False))
def test_counters_of_a_looping_adam_stay_on_the_cpu(make: Make) -> None:
    check_counters(captured(make), {"step"}, {"aten::add_.Tensor"})


@pytest.mark.parametrize("closure", [plain, clipped])
@pytest.mark.parametrize("make", adams(fused=True) + adams(capturable=True))
def test_a_fused_or_capturable_adam_counts_on_the_device(make: Make, closure: Any) -> None:
    check_nothing_on_cpu(placed(captured(make, closure)))


@pytest.mark.parametrize("closure", [plain, clipped])
@pytest.mark.parametrize("options", [{}, {"foreach": False}, {"fused": True}])
def test_momentum_needs_nothing_of_the_cpu(options: dict[str, bool], closure: Any) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **options)

    check_nothing_on_cpu(placed(captured(make, closure)))


@pytest.mark.parametrize("foreach", [None, False])
def test_all_numbers_that_nadam_reads_stay_on_the_cpu(foreach: bool | None) -> None:
    """A product of numbers beside the counter."""
    adds = "aten::add_.Tensor" if foreach is False else "aten::_foreach_add_.Tensor"
    multiplies = "aten::mul_.Tensor" if foreach is False else "aten::_foreach_mul_.ScalarList"
    job = captured(lambda parameters: torch.optim.NAdam(parameters, foreach=foreach))
    check_counters(job, {"step", "mu_product"}, {adds, multiplies})


@pytest.mark.parametrize("make", [torch.optim.Adamax, torch.optim.Adagrad])
def test_counters_of_other_optimizers_stay_on_the_cpu(make: Make) -> None:
    check_counters(captured(make), {"step"}, {"aten::_foreach_add_.Tensor"})


@pytest.mark.parametrize("closure", [scaled_training.plain, scaled_training.clipped])
@pytest.mark.parametrize("name", scaled_training.OPTIMIZERS)
def test_a_scaled_step_decides_on_the_device(name: str, closure: Any) -> None:
    model = scaled_training.make_model()
    job = capture_train_step(
        model,
        None,
        scaled_training.OPTIMIZERS[name](model),
        scaled_training.batches(1)[0],
        closure=closure(scaled_training.make_scaler()),
        target=Target.cuda,
    )
    check_nothing_on_cpu(placed(job))


def test_what_the_user_reads_is_waited_for_and_the_counters_are_not() -> None:
    def reads(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss, loss.item() * 2

    found = placed(captured(adams()[0], reads))
    assert len(found.waiting) == 1
    assert {path[-1] for path in found.slots if path[0] == "optimizer"} == {"step"}


def test_the_random_states_of_a_checkpoint_stay_on_the_cpu() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.3))
            self.second = nn.Linear(24, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(checkpoint(self.first, x, use_reentrant=False))

    found = placed(captured(lambda p: torch.optim.SGD(p, lr=0.1), model=Model()))
    assert {node.op for node in found.nodes} == {
        "laneway::random_state",
        "laneway::restore_random_state",
    }
    assert found.slots == []
    assert found.waiting == []
