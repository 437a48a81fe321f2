"""Real tensors that a step uses, but does not get as arguments: masks in attributes, literals.

Each becomes a slot of the job's image, once. Tensors that would make the step wrong are refused:
the model's own, reached past the model (their gradients would be lost), and others that require a
gradient.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from laneway.errors import CaptureError
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Slot, SlotTable, check_tensor


class Constants:
    """Fakes of real tensors. One per capture."""

    def __init__(self, fake_mode: FakeTensorMode, slots: SlotTable) -> None:
        self._fake_mode = fake_mode
        self._slots = slots
        self.parts: set[int] = set()  # slots that hold only a part of their tensor's memory
        self._forbidden: dict[int, tuple[str, str]] = {}  # storage -> why not, what instead
        # Each tensor with its slot, and whether the slot has a copy of a part of its memory.
        self.outer: list[tuple[torch.Tensor, Slot, bool]] = []
        # The tensors are kept, so that no other object gets their ids.
        self._fakes: dict[int, tuple[torch.Tensor, FakeTensor]] = {}

    def forbid(
        self,
        tensor: torch.Tensor,
        why: str,
        remedy: str = "reach parameters through the model that the step is given",
    ) -> None:
        """From now on a step that uses a real tensor on this storage is refused."""
        self._forbidden[tensor.untyped_storage()._cdata] = why, remedy

    def find(self, tensor: torch.Tensor) -> FakeTensor | None:
        """The fake of a real tensor, if add() has made one."""
        known = self._fakes.get(id(tensor))
        return known[1] if known is not None else None

    def add(self, tensor: torch.Tensor) -> tuple[FakeTensor, Slot]:
        """The fake of a real tensor and its slot; makes both if needed. Raises CaptureError without
        operator and line."""
        check_tensor(tensor, "a tensor that the step captured")
        reason, remedy = self._forbidden.get(tensor.untyped_storage()._cdata, (None, None))
        if reason is None and tensor.requires_grad:
            reason = "a tensor that requires a gradient but is no parameter of the step's models"
            remedy = (
                "give the step every model that it trains, in a list: "
                "laneway.step([a, b], [optimizer_a, optimizer_b])"
            )
        if reason is not None:
            raise CaptureError(f"the step uses {reason}", remedy=remedy)
        with _disable_current_modes():
            slot, held = self._slots.find(tensor), tensor
            if slot is None:
                if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
                    held = tensor.detach().clone()  # a view of something larger
                slot = self._slots.add(held, self._path(), SlotKind.constant)
                if held is not tensor:
                    self.parts.add(slot.index)
            self.outer.append((tensor, slot, held is not tensor))
            fake = self._fake_mode.from_tensor(held, static_shapes=True)
        self._fakes[id(tensor)] = (tensor, fake)
        return fake, slot

    def end(self) -> None:
        """Lets go of all fakes."""
        self._fakes.clear()

    def _path(self) -> tuple:
        return ("constant", sum(s.kind == SlotKind.constant for s in self._slots.slots))
