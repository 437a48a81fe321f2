"""A step captured for CUDA has the optimizer's form that eager execution takes for CUDA tensors.

Left to itself a torch optimizer takes its foreach form there. So every optimizer is captured for
CUDA with no form named, and its operators are compared with those that eager execution dispatches
when it is told foreach=True; the graph, run on the CPU, leaves the bits of that eager run.
"""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from laneway.capture.capture import CapturedJobGraph, capture_train_step
from laneway.graph.target import Target
from support.eager import assert_same, eager_step
from support.for_cuda import not_listed, without_kernel
from support.reference_executor import ReferenceJob

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adam-amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01}),
    "adadelta": (torch.optim.Adadelta, {"lr": 0.5}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
    "rprop": (torch.optim.Rprop, {"lr": 0.01}),
}
STEPS = 3


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))


def batches(count: int = STEPS) -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(count)]


class Dispatched(TorchDispatchMode):
    """Names of the operators that run, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def in_optimizer(captured: CapturedJobGraph) -> list[str]:
    return [n.op.partition(".")[0] for n in captured.graph.nodes if "_foreach_" in n.op]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_has_the_form_of_eager_on_cuda(name: str) -> None:
    make, options = OPTIMIZERS[name]
    model = perceptron()
    twin = copy.deepcopy(model)
    optimizer = make(model.parameters(), **options)
    eager = make(twin.parameters(), foreach=True, **options)
    data = batches()
    captured = capture_train_step(
        model, nn.functional.cross_entropy, optimizer, data[0], target=Target.cuda
    )
    assert without_kernel(captured) == set()
    assert not_listed(captured) == set()
    job = ReferenceJob(captured.slots)
    for batch in data:
        with Dispatched() as dispatched:
            expected = eager_step(twin, nn.functional.cross_entropy, eager, batch)
        assert_same(expected.detach(), job.step(captured, batch, optimizer=optimizer))
        assert_same(twin.state_dict(), job.model_state())
    wanted = [n for n in dispatched.names if "_foreach_" in n]
    assert wanted, "eager's form is no foreach form: the comparison shows nothing"
    assert sorted(in_optimizer(captured)) == sorted(wanted)


@pytest.mark.parametrize("options", [{"foreach": False}, {"fused": True}])
def test_the_form_that_the_user_names_stays(options: dict[str, bool]) -> None:
    data = batches(1)[0]
    graphs = []
    for target in Target:
        torch.manual_seed(1)
        model = perceptron()
        adam = torch.optim.Adam(model.parameters(), **options)
        graphs.append(
            capture_train_step(model, nn.functional.cross_entropy, adam, data, target=target).graph
        )
    assert [n.op for n in graphs[0].nodes] == [n.op for n in graphs[1].nodes]


def test_capturable_state_is_a_tensor_of_the_device() -> None:
    model = perceptron()
    adam = torch.optim.Adam(model.parameters(), capturable=True)
    captured = capture_train_step(
        model, nn.functional.cross_entropy, adam, batches(1)[0], target=Target.cuda
    )
    assert not any(n.op == "aten::_local_scalar_dense" for n in captured.graph.nodes)
    assert "aten::_foreach_add_" in in_optimizer(captured)


def test_gradients_are_clipped_by_foreach_operators() -> None:
    model = perceptron()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def clipped(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    captured = capture_train_step(
        model, None, sgd, batches(1)[0], closure=clipped, target=Target.cuda
    )
    assert {"aten::_foreach_norm", "aten::_foreach_mul_"} <= set(in_optimizer(captured))


def test_other_threads_and_later_captures_keep_the_form_of_a_cpu() -> None:
    """While one thread captures for CUDA another captures for the CPU, and steps eagerly."""
    inside, done = threading.Event(), threading.Event()
    names: list[str] = []

    def loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        inside.set()
        assert done.wait(120)
        return nn.functional.cross_entropy(output, labels)

    def elsewhere() -> None:
        try:
            assert inside.wait(120)
            model = perceptron()
            adam = torch.optim.Adam(model.parameters())
            with Dispatched() as dispatched:
                eager_step(model, nn.functional.cross_entropy, adam, batches(1)[0])
            captured = capture_train_step(model, nn.functional.cross_entropy, adam, batches(1)[0])
            names.extend(n for n in dispatched.names if "_foreach_" in n)
            names.extend(in_optimizer(captured))
        finally:
            done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    model = perceptron()
    captured = capture_train_step(
        model, loss, torch.optim.Adam(model.parameters()), batches(1)[0], target=Target.cuda
    )
    thread.join()
    assert in_optimizer(captured)
    assert names == []
    assert torch.backends.mha.get_fastpath_enabled()
