"""Numbers that a step reads from tensors and that are the same in every iteration.

A step may decide by what it reads from tensors that depend on nothing but constants and the
program itself: whether a mask that the model holds is causal, how long a table is. Such a number is
worked out at capture, by running for real the nodes that lead to it, and the decision is taken as
eager would take it. A number that depends on an input, on weights or state, or on chance is not
known.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.errors import CaptureError
from laneway.graph_ir import (
    TORCH_OF_DTYPE,
    Argument,
    DeviceArgument,
    DType,
    GeneratorArgument,
    LayoutArgument,
    MemoryFormat,
    Node,
    SlotKind,
    StorageKind,
    ValueArgument,
    ValueKind,
)
from laneway.slots import SlotTable
from laneway.value_table import ValueTable

_FORMATS = {
    MemoryFormat.contiguous: torch.contiguous_format,
    MemoryFormat.preserve: torch.preserve_format,
    MemoryFormat.channels_last: torch.channels_last,
    MemoryFormat.channels_last_3d: torch.channels_last_3d,
}
_SCALAR_OPERATORS = {
    "scalar::add": operator.add,
    "scalar::sub": operator.sub,
    "scalar::mul": operator.mul,
    "scalar::div": operator.truediv,
    "scalar::pow": operator.pow,
    "scalar::neg": operator.neg,
    "scalar::sqrt": math.sqrt,
}


# They take from their first argument how it looks, and nothing of what it holds.
_LIKE_OPERATORS = frozenset(
    {
        "aten::empty_like",
        "aten::full_like",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::new_full",
        "aten::new_ones",
        "aten::new_zeros",
        "aten::ones_like",
        "aten::zeros_like",
    }
)


class KnownNumbers:
    """Looks into what a recorder has written so far; `nodes` and `fresh` (storages of Python
    literals, new in every iteration) are the recorder's own and grow. One per capture."""

    def __init__(
        self, table: ValueTable, slots: SlotTable, nodes: list[Node], fresh: set[int]
    ) -> None:
        self._table = table
        self._slots = slots
        self._nodes = nodes
        self._fresh = fresh
        self._relied_on: set[int] = set()  # storages of constants that a known number came from

    def number(self, value: int) -> bool | int | float | None:
        """The number that value `value` is in every iteration; None when that is not known."""
        leading = self._nodes_before(value)
        if leading is None:
            return None
        nodes, constants = leading
        self._relied_on |= constants
        return self._run(nodes, value)

    def check_writes(self, node: Node) -> None:
        """Raises CaptureError for a node that changes what a known number came from."""
        for value in node.writes:
            if self._table.values[value].storage in self._relied_on:
                raise CaptureError(
                    "the step writes to a tensor after it decided by what it read from it",
                    remedy="make it a registered buffer, and keep the decision in tensors",
                )

    def _nodes_before(self, value: int) -> tuple[list[Node], set[int]] | None:
        """What must run to know the value, in order, and the storages of constants that it reads.
        None when it depends on more than constants."""
        wanted, storages = {value}, self._storages_of([value])
        nodes: list[Node] = []
        made: set[int] = set()
        for node in reversed(self._nodes):
            results = {v for result in node.results for v in result.values}
            if not (results & wanted or self._storages_of(node.writes) & storages):
                continue
            if any(isinstance(argument, GeneratorArgument) for _, argument in node.arguments):
                return None
            reads = node.reads()[1:] if node.op in _LIKE_OPERATORS else node.reads()
            nodes.append(node)
            made |= results
            wanted.update(reads)
            storages |= self._storages_of(reads)
        constants = storages & self._constants()
        others = {s for s in storages - constants if not self._is_ephemeral(s)}
        numbers = [v for v in wanted - made if self._table.values[v].kind != ValueKind.tensor]
        written = {s for node in self._nodes for s in self._storages_of(node.writes)}
        lasting = constants - self._fresh
        if others or numbers or written & lasting:
            return None
        return nodes[::-1], lasting

    def _storages_of(self, values: list[int]) -> set[int]:
        described = (self._table.values[v] for v in values)
        return {v.storage for v in described if v.kind == ValueKind.tensor}

    def _is_ephemeral(self, storage: int) -> bool:
        return self._table.storages[storage].kind == StorageKind.ephemeral

    def _constants(self) -> set[int]:
        return {
            number
            for number, storage in enumerate(self._table.storages)
            if storage.kind == StorageKind.persistent
            and self._slots.slots[storage.index].kind == SlotKind.constant
        }

    def _run(self, nodes: list[Node], value: int) -> Any:
        values: dict[int, Any] = {}
        copies: dict[int, torch.UntypedStorage] = {}

        def given(argument: Argument) -> Any:
            if isinstance(argument, ValueArgument):
                if argument.value not in values:
                    values[argument.value] = self._constant(argument.value, copies)
                return values[argument.value]
            if isinstance(argument, list):
                return [given(element) for element in argument]
            if isinstance(argument, DType):
                return TORCH_OF_DTYPE[argument]
            if isinstance(argument, MemoryFormat):
                return _FORMATS[argument]
            if isinstance(argument, LayoutArgument):
                return torch.strided
            return torch.device("cpu") if isinstance(argument, DeviceArgument) else argument

        with _disable_current_modes(), torch._C._AutoDispatchBelowADInplaceOrView():
            for node in nodes:
                positional = [a for name, a in node.arguments if not name]
                if node.op in _LIKE_OPERATORS:
                    positional = [self._blank(positional[0].value), *map(given, positional[1:])]
                else:
                    positional = list(map(given, positional))
                named = {name: given(a) for name, a in node.arguments if name}
                result = _operator(node.op)(*positional, **named)
                results = result if isinstance(result, tuple) else (result,)
                for described, part in zip(node.results, results):
                    parts = part if described.is_list else [part]
                    values.update(zip(described.values, parts))
        return values[value]

    def _blank(self, value: int) -> torch.Tensor:
        described = self._table.values[value]
        dtype = TORCH_OF_DTYPE[described.dtype]
        return torch.empty_strided(described.sizes, described.strides, dtype=dtype)

    def _constant(self, value: int, copies: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        described = self._table.values[value]
        if described.storage not in copies:
            slot = self._slots.slots[self._table.storages[described.storage].index]
            copies[described.storage] = slot.initial_bytes().clone().untyped_storage()
        tensor = torch.empty(0, dtype=TORCH_OF_DTYPE[described.dtype])
        return tensor.set_(
            copies[described.storage],
            described.storage_offset,
            described.sizes,
            described.strides,
        )


def _operator(name: str) -> Any:
    if name in _SCALAR_OPERATORS:
        return _SCALAR_OPERATORS[name]
    family, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, family), overload or "default")
