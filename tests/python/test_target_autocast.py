"""torch.autocast("cuda") in a step that is captured for CUDA casts what CUDA's autocast casts.

Two independent sources say what that is: the operators for which this torch has a kernel under
CUDA's autocast key, and eager execution of the same functions on fake CUDA tensors, whose dtypes
need no GPU.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from laneway.capture.capture import capture_inference, capture_train_step
from laneway.cuda import cuda_autocast
from laneway.errors import CaptureError
from laneway.graph.graph_ir import TORCH_OF_DTYPE
from laneway.graph.target import Target
from support.both import sgd
from support.cuda_stand_ins import cuda_on_cpu  # noqa: F401
from support.for_cuda import not_listed, operators_of, without_kernel
from support.reference_executor import ReferenceJob

# What only code for CUDA calls, and names of dimensions, which no graph holds.
NOT_OURS = re.compile(
    r".*(dimname|Dimname|names_).*|_thnn_fused_\w+|_scaled_dot_product_flash_attention|_cudnn_rnn|"
    r"cudnn_convolution\w*"
)


def test_the_lists_are_those_of_this_torch() -> None:
    registered = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        if name.startswith("aten::")
    }
    ours = {name for name, _ in cuda_autocast.forms()}
    assert {name for name in registered - ours if not NOT_OURS.fullmatch(name)} == set()
    assert ours - registered == set()


def matrix(*sizes: int, dtype: torch.dtype = torch.float32) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.ones(sizes, dtype=dtype, device=device)


BFLOAT = torch.bfloat16
CALLS: dict[str, tuple[Callable[..., Any], list[Callable[[str], torch.Tensor]]]] = {
    "linear": (F.linear, [matrix(2, 4), matrix(3, 4), matrix(3)]),
    "matmul": (torch.matmul, [matrix(2, 4), matrix(4, 3)]),
    "double": (torch.matmul, [matrix(n, n, dtype=torch.float64) for n in (4, 4)]),
    "conv": (F.conv2d, [matrix(1, 2, 5, 5), matrix(3, 2, 3, 3)]),
    "softmax": (lambda x: F.softmax(x, -1), [matrix(2, 4, dtype=BFLOAT)]),
    "softmax-dtype": (lambda x: F.softmax(x, -1, dtype=BFLOAT), [matrix(2, 4, dtype=BFLOAT)]),
    "sum": (lambda x: x.sum(), [matrix(2, 4, dtype=BFLOAT)]),
    "sum-of-integers": (lambda x: x.sum(), [matrix(2, 4, dtype=torch.int32)]),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), [matrix(2, 4, dtype=BFLOAT)]),
    "exp": (torch.exp, [matrix(2, dtype=BFLOAT)]),
    "norm": (lambda x: torch.norm(x, 2.0), [matrix(2, 4, dtype=BFLOAT)]),
    "mse_loss": (F.mse_loss, [matrix(2, 4, dtype=BFLOAT), matrix(2, 4, dtype=BFLOAT)]),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.int64, device=x.device)),
        [matrix(2, 4, dtype=BFLOAT)],
    ),
    "add": (torch.add, [matrix(2, dtype=BFLOAT), matrix(2)]),
    "widest": (torch.dot, [matrix(4, dtype=BFLOAT), matrix(4)]),
    "widest-of-16-bits": (torch.dot, [matrix(4, dtype=BFLOAT), matrix(4, dtype=BFLOAT)]),
    "relu": (F.relu, [matrix(2, dtype=BFLOAT)]),
}


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=BFLOAT):
            return self.function(*inputs)


def dtype_on_cuda(function: Callable[..., Any], inputs: list[Any]) -> torch.dtype:
    """What eager execution answers on CUDA, on tensors without data."""
    with FakeTensorMode():
        given = [make("cuda") for make in inputs]
        before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", BFLOAT)
        try:
            return function(*given).dtype
        finally:
            torch.set_autocast_enabled("cuda", before[0])
            torch.set_autocast_dtype("cuda", before[1])
            torch.clear_autocast_cache()


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_dtypes_that_they_have_on_cuda(name: str) -> None:
    function, inputs = CALLS[name]
    given = tuple(make("cpu") for make in inputs)
    captured = capture_inference(Call(function), given, target=Target.cuda)
    assert not_listed(captured) == set()
    found = captured.graph.values[captured.graph.outputs[0]].dtype
    assert TORCH_OF_DTYPE[found] == dtype_on_cuda(function, inputs)


class Twice(nn.Module):
    """Uses one weight twice, and attention between, under autocast or not."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        self.enabled = enabled
        self.weight = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=BFLOAT, enabled=self.enabled):
            x = self.weight(self.weight(x))
            parts = x.view(*x.shape[:2], 2, 8).transpose(1, 2)
            x = F.scaled_dot_product_attention(parts, parts, parts).transpose(1, 2).flatten(2)
            assert torch.is_autocast_enabled("cuda") is self.enabled
            return self.head(x.mean(1)).float()


def batch() -> tuple:
    return torch.randn(3, 5, 16), torch.randint(0, 4, (3,))


@pytest.mark.usefixtures("cuda_on_cpu")
def test_training_under_autocast() -> None:
    """The graph, on the CPU, comes as near to training in float32 as bfloat16 lets it."""
    model = Twice()
    twin = copy.deepcopy(model)
    twin.enabled = False
    optimizer, data = sgd(model), batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured = capture_train_step(model, F.cross_entropy, optimizer, data, target=Target.cuda)
    assert without_kernel(captured) == set()
    assert not_listed(captured) == set()
    assert "aten::_scaled_dot_product_efficient_attention" in operators_of(captured)
    # The weight and its bias are cast once each, though they are used twice; the head's too.
    slots = {
        captured.slots[s.index].name: number
        for number, s in enumerate(captured.graph.storages)
        if s.kind.name == "persistent"
    }
    casts = [
        captured.graph.values[n.arguments[0][1].value].storage
        for n in captured.graph.nodes
        if n.op == "aten::_to_copy"
    ]
    assert casts.count(slots["model/weight.weight"]) == 1
    assert casts.count(slots["model/head.weight"]) == 1
    job = ReferenceJob(captured.slots)
    loss = job.step(captured, data, optimizer=optimizer)
    expected = F.cross_entropy(twin(data[0]), data[1])
    expected.backward()
    sgd(twin).step()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected.detach(), rtol=0.05, atol=0.05)
    torch.testing.assert_close(job.model_state(), twin.state_dict(), rtol=0.05, atol=0.05)


def test_autocast_that_is_off_casts_nothing() -> None:
    model = Twice(enabled=False)
    captured = capture_train_step(model, F.cross_entropy, sgd(model), batch(), target=Target.cuda)
    assert "aten::_to_copy" not in operators_of(captured)


def test_a_later_region_casts_anew() -> None:
    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                with torch.autocast("cuda", dtype=BFLOAT):
                    x = self.layer(x)
            return x.float()

    model = Regions()
    captured = capture_train_step(
        model, F.mse_loss, sgd(model), (torch.ones(2, 4), torch.ones(2, 4)), target=Target.cuda
    )
    forward = operators_of(captured)[: operators_of(captured).index("aten::mse_loss")]
    assert forward.count("aten::_to_copy") >= 4  # weight and bias, in each region


def test_recurrent_layers_run_in_the_lower_precision() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", dtype=BFLOAT):
                return self.layer(x)[0]

    captured = capture_inference(Model(), (torch.ones(3, 2, 4),), target=Target.cuda)
    node = next(n for n in captured.graph.nodes if n.op == "aten::_cudnn_rnn")
    output = captured.graph.values[node.results[0].values[0]].dtype
    assert TORCH_OF_DTYPE[output] == BFLOAT


def test_what_torch_refuses_under_autocast_is_refused() -> None:
    call = Call(lambda x: F.binary_cross_entropy(x, x))
    with pytest.raises(CaptureError, match="binary_cross_entropy_with_logits"):
        capture_inference(call, (torch.rand(4),), target=Target.cuda)


def test_outside_of_a_capture_autocast_is_torchs() -> None:
    capture_inference(Call(F.relu), (torch.ones(2),), target=Target.cuda)
    if not torch.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not torch.autocast("cuda")._enabled
