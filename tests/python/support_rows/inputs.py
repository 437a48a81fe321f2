"""Rows: what a step's or an inference's inputs may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn

import laneway
from support.support_table import Group
from support.trial import Trial

INPUTS = Group("Inputs", "Given to an inference, `model(x)`, unless said.")


class Summed(nn.Module):
    """A weighted sum, whatever the input's dtype and shape."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 6))
        self.dtype = dtype

    def forward(self, x: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            return x * self.weight
        if x.device.type == "meta" or x.is_quantized or x.is_mkldnn:
            return self.weight * len(x)
        if x.layout is not torch.strided or x.dtype.itemsize == 1:
            return x.to(torch.float32).to_dense() * self.weight
        return x.to(torch.promote_types(x.dtype, torch.float32)) * self.weight


def given(trial: Trial, make: Callable[[], Any]) -> None:
    x = make()
    trial.infer(Summed, [(x,), (x,)])


DTYPES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
    "uint16 uint32 uint64 complex32 float8_e4m3fn float8_e5m2"
)
INPUTS.each(
    {f"dtype {name}": getattr(torch, name) for name in DTYPES.split()},
    lambda trial, dtype: given(trial, lambda: torch.tensor([[0, 1, 1, 0, 1, 1]] * 4).to(dtype)),
)

grid = torch.arange(24.0).view(4, 6)


class Pair(tuple):
    pass


@dataclasses.dataclass
class Batch:
    x: torch.Tensor


class Tagged(torch.Tensor):
    """A subclass of Tensor."""


class Scaled(torch.Tensor):
    """One whose products are half of what plain ones are."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return result * 0.5 if function is torch.Tensor.mul else result


INPUTS.each(
    {
        "transposed": lambda: torch.arange(24.0).view(6, 4).t(),
        "strided (every second row)": lambda: torch.arange(48.0).view(8, 6)[::2],
        "expanded": lambda: torch.arange(6.0).expand(4, 6),
        "with overlapping memory": lambda: torch.arange(12.0).as_strided((4, 6), (1, 1)),
        "a view at an offset": lambda: torch.arange(60.0).view(10, 6)[3:7],
        "0-dimensional": lambda: torch.tensor(2.0),
        "no rows": lambda: torch.empty(0, 6),
        "negated lazily (imaginary part of a conjugate)": lambda: (
            torch.complex(grid, grid).conj().imag
        ),
        "conjugated lazily": lambda: torch.complex(grid, grid).conj(),
        "that requires a gradient": lambda: grid.clone().requires_grad_(),
        "of inference_mode": lambda: _in_inference_mode(),
        "a Parameter": lambda: nn.Parameter(grid.clone()),
        "a subclass of Tensor": lambda: grid.clone().as_subclass(Tagged),
        "a subclass of Tensor with operators of its own": lambda: grid.clone().as_subclass(Scaled),
        "in shared memory": lambda: grid.clone().share_memory_(),
        "from numpy": lambda: torch.from_numpy(numpy.arange(24.0, dtype="float32").reshape(4, 6)),
        "a Python number": lambda: 0.5,
        "sparse (COO)": lambda: grid.to_sparse(),
        "sparse (CSR)": lambda: grid.to_sparse_csr(),
        "quantised": lambda: torch.quantize_per_tensor(grid, 0.1, 0, torch.quint8),
        "in mkldnn layout": lambda: grid.to_mkldnn(),
        "on another device than the CPU (meta)": lambda: torch.empty(4, 6, device="meta"),
    },
    given,
)


def _in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.arange(24.0).view(4, 6)


@INPUTS("two slices of tables that begin between multiples of 16 bytes, in a matrix product")
def between(trial: Trial) -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y

    table = torch.randn(20 * 33)
    calls = [
        (table[n : n + 99].view(3, 33), table[m : m + 99].view(33, 3))
        for n in range(4)
        for m in range(4)
    ]
    trial.infer(Product, [*calls, *calls])


@INPUTS("channels-last images")
def channels_last(trial: Trial) -> None:
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)
    trial.infer(lambda: nn.Conv2d(4, 4, 3), [(x,), (x,)])


class Taking(nn.Module):
    """Hands its only input to a function that makes a tensor of it."""

    def __init__(self, take: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.linear, self.take = nn.Linear(6, 3), take

    def forward(self, given: Any) -> torch.Tensor:
        return self.linear(self.take(given))


STRUCTURES: dict[str, tuple[Any, Callable[[Any], torch.Tensor]]] = {
    "nested (ragged) tensors": (
        torch.nested.nested_tensor([grid[:2], grid], layout=torch.jagged),
        lambda g: g.values(),
    ),
    "a numpy array": (numpy.ones((4, 6), dtype="float32"), torch.as_tensor),
    "a list of tensors": ([grid, grid], lambda g: g[0] + g[1]),
    "a tuple within a dictionary": ({"a": (grid, 2.0)}, lambda g: g["a"][0] * g["a"][1]),
    "None and strings beside tensors": ((grid, None, "sum"), lambda g: g[0]),
    "the same tensor twice": ((grid, grid), lambda g: g[0] * g[1]),
    "a dataclass": (Batch(grid), lambda g: g.x),
    "a slice, a dtype": ((grid, slice(0, 2), torch.float32), lambda g: g[0][g[1]].to(g[2])),
}


def structured(trial: Trial, case: tuple) -> None:
    value, take = case
    trial.infer(lambda: Taking(take), [(value,), (value,)])


INPUTS.each(STRUCTURES, structured)


@INPUTS("indices out of range: an error of the iteration")
def out_of_range(trial: Trial) -> None:
    trial.infer(lambda: nn.Embedding(5, 3), [(torch.tensor([1, 2]),), (torch.tensor([1, 7]),)])


@INPUTS("an input that the model writes in place: the caller's tensor is written")
def written(trial: Trial) -> None:
    class Writing(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return super().forward(x)

    model = Writing(6, 3)
    given = grid.clone()
    with laneway.inference(model, trial.service) as predict, torch.no_grad():
        twin = grid.clone()
        for _ in range(2):
            trial.compare(model(twin), predict(given), "results")
            trial.compare(twin, given, "what was given")


@INPUTS("a training step whose input requires a gradient")
def requires_grad(trial: Trial) -> None:
    batches = [(torch.randn(4, 6, requires_grad=True), torch.randint(0, 3, (4,)))] * 2
    trial.train(lambda: nn.Linear(6, 3), batches)


@INPUTS("a training step with an empty batch")
def empty(trial: Trial) -> None:
    batches = [(torch.randn(n, 6), torch.randn(n, 3)) for n in (4, 0, 4)]
    trial.train(lambda: nn.Linear(6, 3), batches, lambda output, y: (output - y).square().sum())


@INPUTS("NaN and infinities")
def not_finite(trial: Trial) -> None:
    x = torch.tensor([[float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3e38]])
    trial.train(lambda: nn.Linear(6, 3), [(x, torch.tensor([1]))] * 2)


GROUPS = [INPUTS]
