"""Whole models captured for CUDA: CUDA has a kernel for every operator, none is a CPU's own, and
the forward pass is what eager execution dispatches for CUDA tensors (without data, so that no GPU
is needed). Their graphs leave, on stand-ins for what a CPU lacks, what eager training leaves."""

from __future__ import annotations

import collections
import copy
import inspect
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from bench.models import FIVE, arguments, make
from laneway.capture.capture import capture_inference, capture_train_step
from laneway.graph.target import Target
from support.cuda_stand_ins import cuda_on_cpu  # noqa: F401
from support.for_cuda import check_training, not_listed, operators_of, without_kernel

# What a capture leaves out, for it computes nothing.
NOTHING = ("aten::detach", "aten::alias", "prim::device", "aten::lift_fresh")
# Forms of one operator: declared ones, and cuDNN's.
BATCH_NORM = (
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit_no_training",
)


def inputs_of(workload: Any) -> tuple:
    args, _ = arguments(workload.batch(0))
    return args[:-1] if workload.loss_fn else args


@pytest.mark.parametrize("name", [*FIVE, "bert", "hf_llama"])
def test_cuda_has_a_kernel_for_every_operator(name: str) -> None:
    workload = make(name, 1)
    args, kwargs = arguments(workload.batch(0))
    trained = capture_train_step(
        workload.model, workload.loss_fn, workload.optimizer, args, kwargs, target=Target.cuda
    )
    predicts = capture_inference(
        workload.model, inputs_of(workload), kwargs, slots_of=trained, target=Target.cuda
    )
    for captured in (trained, predicts):
        assert without_kernel(captured) == set()
        assert not_listed(captured) == set()
        named = set(operators_of(captured))
        assert not any("mkldnn" in op or "for_cpu" in op or "native_multi" in op for op in named)
    assert any("_foreach_" in op for op in operators_of(trained))


class Dispatched(TorchDispatchMode):
    """Counts the operators that run, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.count: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None):
        self.count[func._schema.name] += 1
        return func(*args, **(kwargs or {}))


def plain(count: collections.Counter[str]) -> dict[str, int]:
    found: collections.Counter[str] = collections.Counter()
    for name, times in count.items():
        if name not in NOTHING:
            found["batch norm" if name in BATCH_NORM else name] += times
    return dict(found)


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet18"])
def test_the_forward_pass_is_that_of_eager_on_cuda(name: str) -> None:
    workload = make(name, 1)
    captured = capture_inference(workload.model, inputs_of(workload), target=Target.cuda)
    model = copy.deepcopy(workload.model).eval()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for module in model.modules():
            for tensors in (module._parameters, module._buffers):
                for key, tensor in tensors.items():
                    if tensor is not None:
                        tensors[key] = mode.from_tensor(tensor).to("cuda")
        given = [mode.from_tensor(x).to("cuda") for x in inputs_of(workload)]
        with torch.no_grad(), Dispatched() as dispatched:
            model(*given)
    assert plain(collections.Counter(operators_of(captured))) == plain(dispatched.count)


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize("name", ["gpt", "lstm"])
def test_training_leaves_what_eager_leaves(name: str) -> None:
    """To within rounding: the kernels add in other orders than a CPU's."""
    workload = make(name, 1)
    kind = type(workload.optimizer)
    taken = inspect.signature(kind).parameters
    options = {k: v for k, v in workload.optimizer.defaults.items() if k in taken}
    check_training(
        workload.model,
        lambda model: kind(model.parameters(), **options),
        workload.loss_fn,
        [workload.batch(0), workload.batch(1)],
        tolerance=2e-3,
    )
