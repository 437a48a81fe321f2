"""Copies between a job's slots and tensors of the client that have the same form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from laneway.errors import InvalidInput
from laneway.graph.slots import Slot, SlotTensor
from laneway.jobs.calls.job import Job

# At most so many bytes of a job's state are held for a comparison at a time.
_COMPARED_BYTES = 64 << 20

# A tensor of the client's, and as what it lies in its slot.
Placed = tuple[SlotTensor, torch.Tensor]


def read_into(job: Job, placed: dict[int, list[Placed]], slots: list[Slot]) -> None:
    """Brings the tensors up to date, by number of their slot; ordered after everything submitted
    before. Bytes go straight into a tensor whose memory has the form of the slot."""
    numbers = sorted(placed)
    storages = [_as_storage(slots[n], placed[n]) for n in numbers]
    fresh = [
        torch.UntypedStorage(slots[n].nbytes) if s is None else s for n, s in zip(numbers, storages)
    ]
    _read(job, [slots[n] for n in numbers], fresh)
    for number, storage, direct in zip(numbers, fresh, storages):
        if direct is None:
            for described, tensor in placed[number]:
                tensor.detach().copy_(described.view(storage))
    torch.autograd.graph.increment_version(
        [tensor for number in numbers for _, tensor in placed[number]]
    )


def differing(job: Job, placed: dict[int, list[Placed]], slots: list[Slot]) -> list[int]:
    """The slots whose bytes are not those of the client's tensors."""
    found: list[int] = []
    for numbers in _batches(sorted(placed), slots):
        storages = [torch.UntypedStorage(slots[n].nbytes) for n in numbers]
        _read(job, [slots[n] for n in numbers], storages)
        for number, storage in zip(numbers, storages):
            if not all(_same_bytes(d.view(storage), tensor) for d, tensor in placed[number]):
                found.append(number)
    return found


def write_from(
    job: Job, placed: dict[int, list[Placed]], slots: list[Slot], names: dict[int, str]
) -> None:
    """Writes the client's tensors into their slots. Raises InvalidInput, and nothing was written,
    when one does not have the form of its slot."""
    numbers = sorted(placed)
    for number in numbers:
        for described, tensor in placed[number]:
            _check_form(described, tensor, names[number])
    storages = [_as_storage(slots[n], placed[n]) for n in numbers]
    apart = [n for n, storage in zip(numbers, storages) if storage is None]
    if apart:  # other tensors may lie in these slots too
        fresh = {n: torch.UntypedStorage(slots[n].nbytes) for n in apart}
        _read(job, [slots[n] for n in apart], [fresh[n] for n in apart])
        for number in apart:
            for described, tensor in placed[number]:
                described.view(fresh[number]).copy_(tensor.detach())
        storages = [fresh[n] if s is None else s for n, s in zip(numbers, storages)]
    job.write_state([slots[n] for n in numbers], storages)


def _read(job: Job, slots: list[Slot], storages: list[torch.UntypedStorage]) -> None:
    if slots:
        job.read_into(slots, storages)


def _as_storage(slot: Slot, placed: list[Placed]) -> torch.UntypedStorage | None:
    """The memory of the tensors if it is, byte for byte, what the slot holds."""
    storage = placed[0][1].untyped_storage()
    if storage.nbytes() != slot.nbytes:
        return None
    for described, tensor in placed:
        if (
            tensor.untyped_storage()._cdata != storage._cdata
            or tensor.dtype != described.dtype
            or tensor.storage_offset() != described.storage_offset
            or tuple(tensor.shape) != described.sizes
            or tuple(tensor.stride()) != described.strides
        ):
            return None
    return storage


def _batches(numbers: Iterable[int], slots: list[Slot]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for number in numbers:
        if batch and size + slots[number].nbytes > _COMPARED_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += slots[number].nbytes
    if batch:
        yield batch


def _same_bytes(ours: torch.Tensor, given: torch.Tensor) -> bool:
    """Whether two tensors have the same elements, bit for bit."""
    given = given.detach()
    if ours.dtype != given.dtype or ours.shape != given.shape or ours.device != given.device:
        return False
    if ours.is_contiguous() and given.is_contiguous() and ours.numel() > 0:
        return torch.equal(ours.reshape(-1).view(torch.uint8), given.reshape(-1).view(torch.uint8))
    return torch.equal(
        ours.contiguous().reshape(-1).view(torch.uint8),
        given.contiguous().reshape(-1).view(torch.uint8),
    )


def _check_form(described: SlotTensor, tensor: torch.Tensor, name: str) -> None:
    found = (tensor.dtype, list(tensor.shape), tensor.device.type)
    known = (described.dtype, list(described.sizes), "cpu")
    if found != known or tensor.layout is not torch.strided:
        raise InvalidInput(
            f"{name} of the model is {found[0]}, {found[1]}, on {found[2]} and was {known[0]}, "
            f"{known[1]}, on cpu when the step was captured: make a new step for the changed "
            "model, or change it back"
        )
