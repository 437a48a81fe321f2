"""Numbers the tensors of a capture: the value of each fake tensor, and its storage.

A tensor remembers its number in an attribute, which lives as long as the tensor does; a storage is
known by its address, which a weak reference keeps from being given to another.
"""

from __future__ import annotations

import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef

from laneway.errors import CaptureError
from laneway.graph.graph_ir import DTYPE_OF_TORCH, DType, Storage, StorageKind, Value, ValueKind

_NUMBER = "_laneway_value"  # attribute of a fake tensor: (table, index of its value)


class ValueTable:
    """Storages and values in the order in which they appear. `lazy` are values that are conjugated
    or negated only when they are read, so that their layout does not describe them completely.
    `made` has each tensor, weakly, with its value; `given` the tensors of the call's arguments,
    with the fakes in their places."""

    def __init__(self) -> None:
        self.made: list[tuple[weakref.ref[torch.Tensor], int]] = []
        self.given: list[tuple[torch.Tensor, weakref.ref[torch.Tensor]]] = []
        self.storages: list[Storage] = []
        self.values: list[Value] = []
        self.lazy: set[int] = set()
        self._storage_numbers: dict[int, tuple[StorageWeakRef, int]] = {}
        self._slot_storages: dict[int, int] = {}

    def find(self, tensor: torch.Tensor) -> int | None:
        """The value of `tensor`, or None when this table does not have it. Raises CaptureError,
        without a line, for a tensor that was given other memory since."""
        known = tensor.__dict__.get(_NUMBER) if isinstance(tensor, FakeTensor) else None
        if known is None or known[0] is not self:
            return None
        self._check_memory(tensor, self.values[known[1]])
        return known[1]

    def same(self, tensor: torch.Tensor, index: int) -> None:
        """Records that `tensor` is value `index` too."""
        key = tensor.untyped_storage()
        storage = self.values[index].storage
        self._storage_numbers.setdefault(key._cdata, (StorageWeakRef(key), storage))
        self.made.append((weakref.ref(tensor), index))
        tensor.__dict__[_NUMBER] = (self, index)

    def add(self, tensor: torch.Tensor) -> int:
        """A new value for `tensor`, on its storage if that is known, else on a new ephemeral one.
        Raises CaptureError, without a line, for a tensor that no graph can hold."""
        _dtype_of(tensor)  # a tensor without a storage raises when it is asked for one
        storage = tensor.untyped_storage()
        known = self._storage_numbers.get(storage._cdata)
        if known is None:
            self.storages.append(Storage(StorageKind.ephemeral, 0, storage.nbytes()))
            return self._add_on(tensor, len(self.storages) - 1)
        return self._add_on(tensor, known[1])

    def add_persistent(self, tensor: torch.Tensor, slot: int, nbytes: int) -> int:
        """A new value for `tensor`, on the storage of `slot`."""
        if slot not in self._slot_storages:
            self._slot_storages[slot] = len(self.storages)
            self.storages.append(Storage(StorageKind.persistent, slot, nbytes))
        return self._add_on(tensor, self._slot_storages[slot])

    def add_input(
        self, tensor: torch.Tensor, position: int, given: torch.Tensor | None = None
    ) -> int:
        """A new value for graph input `position`, with a storage of its own. `given`: the argument
        of the call in whose place it is."""
        if given is not None:
            self.given.append((given, weakref.ref(tensor)))
        nbytes = tensor.untyped_storage().nbytes()
        self.storages.append(Storage(StorageKind.input, position, nbytes))
        return self._add_on(tensor, len(self.storages) - 1)

    def add_number(self, kind: ValueKind) -> int:
        """A new value that is a number."""
        self.values.append(Value(kind))
        return len(self.values) - 1

    def is_persistent(self, value: int) -> bool:
        return self.storages[self.values[value].storage].kind == StorageKind.persistent

    def _check_memory(self, tensor: torch.Tensor, value: Value) -> None:
        known = self._storage_numbers.get(tensor.untyped_storage()._cdata)
        if known is not None and known[1] == value.storage and tuple(tensor.shape) == value.sizes:
            return
        raise CaptureError(
            "a tensor was given other memory (by an assignment to .data)",
            remedy="write into it, under torch.no_grad() with copy_(), or use the new tensor",
        )

    def _add_on(self, tensor: torch.Tensor, storage: int) -> int:
        self.values.append(
            Value(
                ValueKind.tensor,
                _dtype_of(tensor),
                storage,
                tensor.storage_offset(),
                tuple(tensor.shape),
                tuple(tensor.stride()),
            )
        )
        index = len(self.values) - 1
        if tensor.is_conj() or tensor.is_neg():
            self.lazy.add(index)
        self.same(tensor, index)
        return index


def _dtype_of(tensor: torch.Tensor) -> DType:
    if tensor.device.type != "cpu":
        raise CaptureError(
            f"a tensor is on device {tensor.device}", remedy="keep every tensor on the CPU"
        )
    if tensor.layout != torch.strided or tensor.dtype not in DTYPE_OF_TORCH:
        raise CaptureError(
            f"a tensor has layout {tensor.layout} and dtype {tensor.dtype}",
            remedy="only plain strided tensors of the usual dtypes can be captured: keep it dense, "
            "with zeros, and of a floating, complex or signed integer dtype, bool or uint8",
        )
    return DTYPE_OF_TORCH[tensor.dtype]
