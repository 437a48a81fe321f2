"""OuterTensors: tensors from outside of a step, whose present bytes its graph must use.

A graph has such a tensor in a slot of the job's image, or in an input that only this graph has
(joining.py). Before each call the client compares: which tensor it is, torch's count of writes, the
address, and the bytes, because writes through `.data` and numpy are not counted. A tensor that
changed is copied into its place again. What the step writes is copied back after it.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from laneway.capture.uses import OuterTensor
from laneway.graph.slots import Slot
from laneway.jobs.calls.job import Job
from laneway.jobs.calls.slot_contents import Bytes, Content, Contents, form_of

# Of tensors beyond so many bytes of one graph, torch's count alone is looked at, which is told: so
# many take some milliseconds before each call.
MOST_BYTES = 64 << 20


class OuterTensors:
    """Those of one graph. `slots` are the job's; the numbers behind them are those of the graph's
    fixed inputs `fixed`. Thread-safe."""

    def __init__(
        self,
        tensors: list[OuterTensor],
        slots: list[Slot],
        fixed: list[torch.Tensor],
        job: Job,
        contents: Contents,
    ) -> None:
        self._job, self._slots, self._fixed = job, slots, fixed
        self._shared, self._own = contents, Contents()
        self._left, self._told = MOST_BYTES, False
        self._tensors, self._forms = tensors, [form_of(outer.tensor) for outer in tensors]
        with contents.lock:
            for outer in tensors:
                at = self._contents(outer)
                if outer.slot not in at.of:
                    at.of[outer.slot] = self._content(outer.tensor)
        self._written = [outer for outer in tensors if outer.is_written]
        # By these the capture decided, whatever other graphs put into the slots.
        self._pinned = [(outer, Bytes(outer.tensor, True)) for outer in tensors if outer.is_pinned]
        self._bring_up_to_date()

    def difference(self) -> str | None:
        """In what a tensor is not what the graph can use, in words; None when all are in their
        places, where they are by then."""
        for outer, form in zip(self._tensors, self._forms):
            if form_of(outer.tensor) != form:
                return "a tensor from outside has another form: another dtype, size or place"
        for outer, known in self._pinned:
            if not known.are_those_of(outer.tensor):
                return "a tensor by whose values the step decides has others"
        self._bring_up_to_date()
        return None

    def _bring_up_to_date(self) -> None:
        for outer in self._tensors:
            if not self._contents(outer).of[outer.slot].is_still(outer.tensor):
                self._put(outer)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether operators of the graph use it."""
        return any(outer.tensor is tensor for outer in self._tensors)

    def take_place(self, before: torch.Tensor, now: Any) -> bool:
        """Whether `now` is a tensor like `before`, by which nothing was decided."""
        found = [outer for outer in self._tensors if outer.tensor is before]
        return is_like(before, now) and not any(o.is_pinned or o.is_written for o in found)

    def put(self, before: torch.Tensor, now: torch.Tensor) -> None:
        """From here on `now` is what `before` was."""
        for outer in self._tensors:
            if outer.tensor is before:
                outer.tensor = now

    def write_back(self) -> None:
        """Gives tensors that the step writes what it left in the job."""
        for outer in self._written:
            slot = self._slots[outer.slot]
            storage = torch.UntypedStorage(slot.nbytes)
            self._job.read_into([slot], [storage])
            with torch.no_grad():
                outer.tensor.copy_(slot.tensors[0].view(storage))
            self._contents(outer).of[outer.slot] = self._content(outer.tensor)

    def _contents(self, outer: OuterTensor) -> Contents:
        return self._shared if outer.slot < len(self._slots) else self._own

    def _content(self, tensor: torch.Tensor) -> Content:
        size = tensor.numel() * tensor.element_size()
        self._left -= size
        if self._left < 0 and not self._told:
            self._told = True
            warnings.warn(
                f"this step reads a tensor of {size >> 20} MiB from outside of its models, and a "
                f"call compares at most {MOST_BYTES >> 20} MiB of such: a write that torch does "
                "not count (.data, numpy) is not noticed in it; write with copy_() under "
                "torch.no_grad(), or register it as a buffer of the model",
                RuntimeWarning,
                stacklevel=2,
            )
        return Content(tensor, self._left >= 0)

    def _put(self, outer: OuterTensor) -> None:
        with self._shared.lock:
            storage = _storage_of(outer.tensor, outer.is_part)
            if outer.slot < len(self._slots):
                self._job.write_state([self._slots[outer.slot]], [storage])
            else:
                fixed = self._fixed[outer.slot - len(self._slots)]
                fixed.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
            before = self._contents(outer).of[outer.slot]
            content = Content(outer.tensor, before.bytes.are_there())
            self._contents(outer).of[outer.slot] = content


def is_like(before: torch.Tensor, now: Any) -> bool:
    """Whether `now` is a tensor that a step can tell from `before` by its numbers alone."""
    return (
        type(now) is type(before)
        and form_of(now) == form_of(before)
        and now.layout == torch.strided
        and now.storage_offset() == 0
        and now.untyped_storage().nbytes() == before.untyped_storage().nbytes()
        and now.device == before.device
        and not now.requires_grad
        and now.is_conj() == before.is_conj()
        and now.is_neg() == before.is_neg()
        and now.is_inference() == before.is_inference()
    )


def _storage_of(tensor: torch.Tensor, is_part: bool) -> torch.UntypedStorage:
    with torch.no_grad():
        held = tensor.detach().clone() if is_part else tensor.detach()
    return held.untyped_storage()
