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
        self._are_tensors = all(number is None for _, _, number in specs)
        self._natives: list[Any] = []  # of calls that have ended
        self._bytes = [
            torch.empty(0, dtype=dtype).element_size() * _product(sizes)
            for dtype, sizes, _ in specs
        ]

    def buffers(self) -> Buffers:
        """Room for the outputs of one iteration, which rebuild() takes back."""
        try:
            native = self._natives.pop()
        except IndexError:
            native = self._new_native()
        tensors = []
        for i, (dtype, sizes, _) in enumerate(self._specs):
            tensor = torch.empty(sizes, dtype=dtype)
            native[i].data = tensor.data_ptr()
            tensors.append(tensor)
        return Buffers(native, tensors)

    def _new_native(self) -> Any:
        native = ffi.new("laneway_output[]", len(self._specs))
        for i, size in enumerate(self._bytes):
            native[i].bytes = size
        return native

    def rebuild(
        self,
        buffers: Buffers,
        targets: Sequence[torch.Tensor] = (),
        drawn: Drawn | None = None,
    ) -> Any:
        """The step's result, once for each buffers(). The last outputs are what the step left in
        `targets` and the states of generators, which `drawn` gets."""
        tensors = buffers.tensors
        self._natives.append(buffers.native)
        end = len(tensors) - self._generators
        if drawn is not None:
            drawn.left = tensors[end:]
        if targets:
            write_back(targets, tensors[end - len(targets) : end])
        if self._strides:
            for position, strides in self._strides.items():
                tensors[position] = _laid_out(tensors[position], strides)
        if self._are_tensors:
            return self._rebuild(tensors)
        return self._rebuild(
            [
                tensor if number is None else number(tensor.item())
                for tensor, (_, _, number) in zip(tensors, self._specs)
            ]
        )


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
