"""Outputs: room for what an iteration returns, and the step's result made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from laneway.jobs.calls.draws import Drawn
from laneway.jobs.calls.written_inputs import write_back
from laneway.native.bindings import ffi


class Buffers:
    """Fresh tensors for the outputs of one iteration, and their addresses for the library."""

    __slots__ = ("native", "tensors")

    def __init__(self, native: Any, tensors: list[torch.Tensor]) -> None:
        self.native = native
        self.tensors = tensors


class Outputs:
    """What the outputs of a graph look like: per output (dtype, sizes, the type of a number, which
    is a 0-dim float64 or int64 tensor); and how the result is made of them. `strides` are those
    that eager execution gives an output, where they are not those of a new tensor."""

    def __init__(
        self,
        specs: list[tuple[torch.dtype, tuple[int, ...], type | None]],
        rebuild: Callable[[list[Any]], Any],
        generators: int = 0,
        strides: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        """The last `generators` outputs are the states of generators."""
        self._specs = specs
        self._rebuild = rebuild
        self._generators = generators
        self._strides = strides
        self._single_tensor = len(specs) == 1 and specs[0][2] is None
        self._bytes = [
            torch.empty(0, dtype=dtype).element_size() * _product(sizes)
            for dtype, sizes, _ in specs
        ]

    def buffers(self) -> Buffers:
        native = ffi.new("laneway_output[]", len(self._specs))
        tensors = []
        for i, (dtype, sizes, _) in enumerate(self._specs):
            tensor = torch.empty(sizes, dtype=dtype)
            native[i].data = tensor.data_ptr()
            native[i].bytes = self._bytes[i]
            tensors.append(tensor)
        return Buffers(native, tensors)

    def rebuild(
        self,
        buffers: Buffers,
        targets: Sequence[torch.Tensor] = (),
        drawn: Drawn | None = None,
    ) -> Any:
        """The step's result. The last outputs are what the step left in `targets` and the states of
        generators, which `drawn` gets."""
        end = len(buffers.tensors) - self._generators
        if drawn is not None:
            drawn.left = buffers.tensors[end:]
        if targets:
            write_back(targets, buffers.tensors[end - len(targets) : end])
        for position, strides in self._strides.items():
            buffers.tensors[position] = _laid_out(buffers.tensors[position], strides)
        values = [
            tensor if number is None else number(tensor.item())
            for tensor, (_, _, number) in zip(buffers.tensors, self._specs)
        ]
        return self._rebuild(values)


def _laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values with these strides."""
    made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
    # An expanded dimension is one element in memory.
    once = tuple(slice(1 if stride == 0 else None) for stride in strides)
    made[once].copy_(tensor[once])
    return made


def _product(sizes: tuple[int, ...]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
