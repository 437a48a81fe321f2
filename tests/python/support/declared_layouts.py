"""Calls every operator of graphs captured for CUDA on CUDA tensors of the layouts that the graph
declares, and says whose results have another layout. On the fake CUDA torch's own code runs up to
the kernels, which do nothing: values mean nothing, sizes, strides and memory are the real ones.
"""

from __future__ import annotations

from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph, capture_train_step
from laneway.graph.graph_ir import (
    NO_VALUE,
    TORCH_OF_DTYPE,
    TORCH_OF_FORMAT,
    DeviceArgument,
    DType,
    GeneratorArgument,
    Graph,
    LayoutArgument,
    MemoryFormat,
    Node,
    ValueArgument,
    ValueKind,
)
from laneway.graph.target import Target
from support.reference_executor import resolve

_NUMBERS = {ValueKind.integer: 1, ValueKind.real: 1.0, ValueKind.boolean: True}
# cuDNN sizes their results itself; and a number.
_NOT_CALLED = ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::_local_scalar_dense")


class _Calls:
    """The calls of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.generator = torch.Generator("cuda")
        self.differences: list[str] = []
        self.count = 0

    def run(self) -> None:
        for node in self.graph.nodes:
            if node.op.startswith("aten::") and node.op not in _NOT_CALLED:
                self._run(node)

    def _run(self, node: Node) -> None:
        storages: dict[int, torch.UntypedStorage] = {}
        args = [self._argument(a, storages) for name, a in node.arguments if not name]
        kwargs = {name: self._argument(a, storages) for name, a in node.arguments if name}
        # Of cuDNN the fake has handles only; torch's own convolutions give the same layouts.
        with (
            torch._C._AutoDispatchBelowADInplaceOrView(),
            torch.backends.cudnn.flags(enabled=False),
        ):
            result = resolve(node.op)(*args, **kwargs)
        self.count += 1
        if not node.results:
            return
        parts = (result,) if len(node.results) == 1 else result
        for described, part in zip(node.results, parts, strict=True):
            elements = part if described.is_list else [part]
            for index, element in zip(described.values, elements, strict=True):
                if index != NO_VALUE:
                    self._compare(node, index, element)

    def _argument(self, argument: Any, storages: dict[int, torch.UntypedStorage]) -> Any:
        if isinstance(argument, ValueArgument):
            return self._value(argument.value, storages)
        if isinstance(argument, DType):
            return TORCH_OF_DTYPE[argument]
        if isinstance(argument, MemoryFormat):
            return TORCH_OF_FORMAT[argument]
        if isinstance(argument, LayoutArgument):
            return torch.strided
        if isinstance(argument, DeviceArgument):
            return torch.device("cuda", 0)
        if isinstance(argument, GeneratorArgument):
            return self.generator
        if isinstance(argument, list):
            return [self._argument(element, storages) for element in argument]
        return argument

    def _value(self, index: int, storages: dict[int, torch.UntypedStorage]) -> Any:
        if index == NO_VALUE:
            return None
        value = self.graph.values[index]
        if value.kind != ValueKind.tensor:
            return _NUMBERS[value.kind]
        if value.storage not in storages:
            nbytes = self.graph.storages[value.storage].nbytes
            storages[value.storage] = torch.UntypedStorage(nbytes, device="cuda")
        empty = torch.empty(0, dtype=TORCH_OF_DTYPE[value.dtype], device="cuda")
        return empty.set_(storages[value.storage], value.storage_offset, value.sizes, value.strides)

    def _compare(self, node: Node, index: int, given: torch.Tensor) -> None:
        value = self.graph.values[index]
        found = self._layout(given.dtype, given.shape, given.stride(), given.storage_offset())
        wanted = self._layout(
            TORCH_OF_DTYPE[value.dtype], value.sizes, value.strides, value.storage_offset
        )
        found += (given.untyped_storage().nbytes(),)
        wanted += (self.graph.storages[value.storage].nbytes,)
        if found != wanted:
            self.differences.append(f"{node.op} of {node.source}: {found}, not {wanted}")

    @staticmethod
    def _layout(dtype: torch.dtype, sizes: Any, strides: Any, offset: int) -> tuple:
        free = 0 in tuple(sizes)
        seen = [s for s, size in zip(strides, sizes) if size != 1 and not free]
        return (dtype, tuple(sizes), seen, offset)


def differences(captured: CapturedJobGraph) -> tuple[int, list[str]]:
    """How many operators were called, and what differs."""
    calls = _Calls(captured.graph)
    calls.run()
    return calls.count, calls.differences


def main(names: list[str]) -> None:
    """Prints a line a difference, and "N calls, M differ"."""
    from bench.models import arguments, make

    total, found = 0, []
    for name in names:
        workload = make(name, 1)
        args, kwargs = arguments(workload.batch(0))
        captured = capture_train_step(
            workload.model, workload.loss_fn, workload.optimizer, args, kwargs, target=Target.cuda
        )
        count, different = differences(captured)
        total += count
        found += [f"{name}: {line}" for line in different]
    print("\n".join([*found, f"{total} calls, {len(found)} differ"]))
