"""Memory that a step addresses by places in it (as_strided) instead of by tensors."""

from __future__ import annotations

from typing import Any

import torch

from laneway.capture.constants import Constants
from laneway.capture.value_table import ValueTable
from laneway.errors import CaptureError
from laneway.graph.graph_ir import TORCH_OF_DTYPE, StorageKind

aten = torch.ops.aten

# The names of the argument that as_strided and similar operators address.
OPERATORS = frozenset(
    {
        aten.as_strided.default,
        aten.as_strided_.default,
        aten.as_strided_copy.default,
        aten.as_strided_scatter.default,
    }
)


class Addressed:
    """The tensors whose memory a step addresses by places in it. A job has a tensor's memory from
    its first element to its last. So a place is valid when it is relative to the first element and
    lies between these two, or when the tensor is all of its memory."""

    def __init__(self, table: ValueTable, constants: Constants) -> None:
        self._table = table
        self._constants = constants
        self.parts: set[int] = set()  # inputs that are not all of their memory
        self.moved: set[int] = set()  # inputs whose elements are copied together
        self.inputs: set[int] = set()  # inputs that must be all of their memory in every call

    def note(self, value: int, func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> None:
        """Notes that the step addresses the memory of `value`, the first argument. Raises
        CaptureError, without operator and line, when the job has only a part of that memory."""
        described = self._table.values[value]
        storage = self._table.storages[described.storage]
        if storage.kind == StorageKind.ephemeral:
            return
        names = [argument.name for argument in func._schema.arguments]
        named: dict[str, Any] = {**dict(zip(names, args)), **kwargs}
        if storage.kind == StorageKind.input and storage.index not in self.moved:
            if named.get("storage_offset") is None:
                steps = zip(named["size"], named["stride"])
                last = described.storage_offset + sum((s - 1) * stride for s, stride in steps)
                if last < storage.nbytes // TORCH_OF_DTYPE[described.dtype].itemsize:
                    return
            self.inputs.add(storage.index)
        cut = {
            StorageKind.input: self.parts | self.moved,
            StorageKind.persistent: self._constants.parts,
        }
        if storage.index in cut[storage.kind]:
            raise CaptureError(
                "it counts from the beginning of a memory of which the job has the part only that "
                "the tensor shows",
                remedy="give it a tensor of its own with .clone(), or slice instead of as_strided",
            )
