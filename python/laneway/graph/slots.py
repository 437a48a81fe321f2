"""The slots of a job's image: one per persistent storage, shared by all graphs of the job.

A slot is found by the untyped storage of the user's live tensor, so tied parameters and buffers
that are views of each other share one. `initial` borrows the user's tensor (or owns a value that
capture made): its storage's bytes are what the image starts with.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import torch

from laneway.errors import CaptureError
from laneway.graph.graph_ir import DTYPE_OF_TORCH, SlotKind


class OtherImage(CaptureError):
    """A capture does not fit the image of the job that it would join. A step that has the job alone
    begins another one."""


# Set on a tensor that stands in for one in a file.
_IN_FILE = "_laneway_in_file"


def mark_in_file(tensor: torch.Tensor, name: str) -> None:
    """The tensor's memory has no meaning: the job takes its bytes from a file."""
    setattr(tensor, _IN_FILE, name)


# ("model", "0.weight"), ("optimizer", 3, "exp_avg"), ("constant", 0): where a tensor lives.
Path = tuple


@dataclasses.dataclass(frozen=True)
class SlotTensor:
    """One tensor on a slot's storage; strides and offset are in elements."""

    path: Path
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int

    def view(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """This tensor over `storage`, which must have the slot's bytes."""
        return torch.empty(0, dtype=self.dtype, device=storage.device).set_(
            storage, self.storage_offset, self.sizes, self.strides
        )


@dataclasses.dataclass
class Slot:
    """`initial` is any tensor on the storage whose bytes the image starts with; `created` says that
    capture made it (state that torch makes lazily in its first step)."""

    index: int
    name: str
    kind: SlotKind
    nbytes: int
    initial: torch.Tensor
    tensors: list[SlotTensor]
    created: bool = False

    @property
    def path(self) -> Path:
        return self.tensors[0].path

    @property
    def dtype(self) -> torch.dtype:
        return self.tensors[0].dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.tensors[0].sizes

    @property
    def strides(self) -> tuple[int, ...]:
        return self.tensors[0].strides

    def initial_bytes(self) -> torch.Tensor:
        """The `nbytes` bytes that the image starts with, as a flat uint8 tensor on the same
        memory. Raises CaptureError for bytes that are in a file."""
        name = getattr(self.initial, _IN_FILE, None)
        if name is not None:
            raise CaptureError(
                f"the values of '{name}' decide what is captured, and they are in a file",
                remedy="give this tensor memory, and leave it out of the file",
            )
        return torch.empty(0, dtype=torch.uint8).set_(self.initial.untyped_storage())


class HasSlots(Protocol):
    """The part of a job's image that a joining capture uses."""

    @property
    def slots(self) -> list[Slot]: ...


class SlotTable:
    """Numbers slots in the order in which they are added; a number never changes."""

    def __init__(self, slots: list[Slot] | None = None) -> None:
        self.slots: list[Slot] = list(slots or [])
        self._by_storage: dict[int, Slot] = {
            slot.initial.untyped_storage()._cdata: slot for slot in self.slots
        }
        self._by_path = {tensor.path: slot for slot in self.slots for tensor in slot.tensors}
        self._held: list[torch.Tensor] = []  # keeps the storages of find_path's tensors taken

    def copy(self) -> SlotTable:
        """A table with the same slots that can be extended without changing this one."""
        copied = [dataclasses.replace(slot, tensors=list(slot.tensors)) for slot in self.slots]
        return SlotTable(copied)

    def kept(self, numbers: list[int]) -> list[Slot]:
        """The slots of these numbers, numbered anew in this order."""
        return [dataclasses.replace(self.slots[old], index=new) for new, old in enumerate(numbers)]

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """The slot on whose storage `tensor` lies; none for a tensor that was given another storage
        (`.data = `) of another size."""
        storage = tensor.untyped_storage()
        slot = self._by_storage.get(storage._cdata)
        return slot if slot is not None and slot.nbytes == storage.nbytes() else None

    def find_path(self, path: Path) -> Slot | None:
        """The slot on which the tensor of this path lies."""
        return self._by_path.get(path)

    def add(self, tensor: torch.Tensor, path: Path, kind: SlotKind, created: bool = False) -> Slot:
        """The slot for `tensor`'s storage, made if there is none yet; `tensor` is noted as lying on
        it. A path that is known keeps its slot, whatever memory its tensor has by now: the bytes
        are the job's. Refuses tensors that a slot cannot hold, and a path whose tensor has another
        layout than before."""
        name = "/".join(str(part) for part in path)
        check_tensor(tensor, name)
        described = SlotTensor(
            path=path,
            dtype=tensor.dtype,
            sizes=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            storage_offset=tensor.storage_offset(),
        )
        slot = self.find_path(path)
        if slot is not None:
            _check_layout(slot, described, name)
            self._by_storage[tensor.untyped_storage()._cdata] = slot
            self._held.append(tensor)
            return slot
        slot = self.find(tensor)
        if slot is None:
            storage = tensor.untyped_storage()
            slot = Slot(len(self.slots), name, kind, storage.nbytes(), tensor, [], created)
            self.slots.append(slot)
            self._by_storage[storage._cdata] = slot
        slot.tensors.append(described)
        self._by_path[path] = slot
        return slot


def _check_layout(slot: Slot, described: SlotTensor, name: str) -> None:
    known = next(tensor for tensor in slot.tensors if tensor.path == described.path)
    if known != described:
        raise OtherImage(
            f"{name} has dtype {described.dtype}, shape {list(described.sizes)} and strides "
            f"{list(described.strides)}; the job's has {known.dtype}, {list(known.sizes)} and "
            f"{list(known.strides)}",
            remedy="make a new step for the changed model",
        )


def check_tensor(tensor: torch.Tensor, name: str) -> None:
    """Raises CaptureError, naming the tensor, unless it is a plain strided CPU tensor of a dtype
    that a graph knows."""
    if tensor.device.type != "cpu":
        raise CaptureError(
            f"{name} is on device {tensor.device}, a step is captured from CPU tensors",
            remedy="move it with .cpu(); the service chooses the device the step runs on",
        )
    if tensor.is_quantized:
        raise CaptureError(
            f"{name} has the quantised dtype {tensor.dtype}, only plain tensors can be captured",
            remedy="convert it with .dequantize()",
        )
    if tensor.layout != torch.strided or tensor.is_nested:
        raise CaptureError(
            f"{name} has layout {tensor.layout}, only plain strided tensors can be captured",
            remedy="convert it with .to_dense()",
        )
    if tensor.dtype not in DTYPE_OF_TORCH:
        raise CaptureError(
            f"{name} has dtype {tensor.dtype}, which a graph does not know",
            remedy="convert it to a floating, complex or signed integer dtype, bool or uint8",
        )
    if tensor.is_conj() or tensor.is_neg():
        raise CaptureError(
            f"{name} is a lazily conjugated or negated view",
            remedy="make it a tensor of its own with .resolve_conj().resolve_neg()",
        )
