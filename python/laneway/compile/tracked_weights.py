"""TrackedWeights: the tensors whose bytes a job has, and which of them the user has changed since.

Torch counts writes to a tensor (its version). It does not count those through `.data`, through
numpy, or by fused optimizers. So this module counts steps of fused optimizers, compares addresses,
and compares the bytes with a copy or with sums of them: before a call where they are few, else
while the service runs the call (graph_job.py). It holds tensors by weak references.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from laneway.jobs.calls.slot_contents import Bytes, Sums

# Weights of so many bytes are compared in some microseconds.
_FEW_BYTES = 256 << 10
# Of weights beyond so many bytes there are sums to compare with: a copy would be as large as they.
MOST_COPIED_BYTES = 2 << 30

_unversioned_steps = 0  # steps of fused optimizers in this process


def _count_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    global _unversioned_steps
    if any(group.get("fused") for group in optimizer.param_groups):
        _unversioned_steps += 1


register_optimizer_step_post_hook(_count_step)

_swap_tensors = torch.utils.swap_tensors
_everywhere: weakref.WeakSet[TrackedWeights] = weakref.WeakSet()


@functools.wraps(_swap_tensors)
def _swap_tracked(t1: torch.Tensor, t2: torch.Tensor) -> None:
    """torch.utils.swap_tensors, which refuses tensors that somebody holds by weak references."""
    let_go = [(tracked, tracked.let_go((t1, t2))) for tracked in list(_everywhere)]
    try:
        _swap_tensors(t1, t2)
    finally:
        for tracked, held in let_go:
            tracked.hold_again(held)


torch.utils.swap_tensors = _swap_tracked


class OtherLayout(Exception):
    """The tensors do not have the layout of those with which the job was made."""


class TrackedWeights:
    """`on_death` is called, in any thread, when the last of the tensors is destroyed. Used by one
    thread at a time."""

    def __init__(self, tensors: Sequence[torch.Tensor], on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._alive = len(tensors)
        self._layout = layout_of(tensors)
        self._steps = _unversioned_steps
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self._copies = total <= MOST_COPIED_BYTES
        self.are_few = total <= _FEW_BYTES
        self._known = [self._look(tensor) for tensor in tensors]
        _everywhere.add(self)

    def let_go(self, tensors: Sequence[torch.Tensor]) -> list[tuple[int, torch.Tensor]]:
        """Drops the references to those of the tensors that are tracked. Returns their positions,
        for hold_again()."""
        found = []
        for position, known in enumerate(self._known):
            tensor = known[0]()
            if any(tensor is one for one in tensors):
                found.append((position, tensor))
                self._known[position] = (_nothing, *known[1:])
        return found

    def hold_again(self, found: Sequence[tuple[int, torch.Tensor]]) -> None:
        """Tracks them as before, and takes what they hold for changed."""
        for position, tensor in found:
            known = self._known[position]
            self._known[position] = (weakref.ref(tensor, self._died), -1, *known[2:])

    def same(self, tensors: Sequence[torch.Tensor]) -> int:
        """How many of the tensors are the tracked ones."""
        return sum(known[0]() is tensor for known, tensor in zip(self._known, tensors))

    def changed(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """The positions of tensors that may have other bytes than at the last note(). Raises
        OtherLayout when one has no version: a tensor made in inference mode."""
        if self._steps != _unversioned_steps:
            return list(range(len(tensors)))
        try:
            return [
                position
                for position, (tensor, known) in enumerate(zip(tensors, self._known))
                if known[0]() is not tensor
                or tensor._version != known[1]
                or tensor.data_ptr() != known[2]
                or (self.are_few and not known[3].are_those_of(tensor))
            ]
        except RuntimeError as error:
            raise OtherLayout from error

    def rewritten(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """The positions of tensors that have other bytes than at the last note(): all are read."""
        return [
            position
            for position, (tensor, known) in enumerate(zip(tensors, self._known))
            if not known[3].are_those_of(tensor)
        ]

    def note(self, tensors: Sequence[torch.Tensor], positions: Sequence[int]) -> None:
        """Tracks these tensors from now on. If it raises OtherLayout, nothing has changed."""
        if (
            any(self._known[p][0]() is not tensors[p] for p in positions)
            or any(self._known[p][2] != tensors[p].data_ptr() for p in positions)
        ) and layout_of(tensors) != self._layout:
            raise OtherLayout
        self._steps = _unversioned_steps
        for position in positions:
            tensor = tensors[position]
            if self._known[position][0]() is not tensor:
                self._alive += self._known[position][0]() is None
            self._known[position] = self._look(tensor)

    def _look(self, tensor: torch.Tensor) -> tuple:
        reference = weakref.ref(tensor, self._died)
        known = Bytes(tensor, True) if self._copies else Sums(tensor)
        return reference, tensor._version, tensor.data_ptr(), known

    def _died(self, reference: Any) -> None:
        if any(known[0] is reference for known in self._known):
            self._alive -= 1
            if self._alive == 0:
                self._on_death()


def _nothing() -> None:
    """A reference to no tensor."""


def layout_of(tensors: Sequence[torch.Tensor]) -> list[tuple]:
    """The layouts of tensors, which an image keeps while its job runs."""
    first: dict[int, int] = {}
    layout = []
    for position, tensor in enumerate(tensors):
        storage = tensor.untyped_storage()
        group = first.setdefault(storage._cdata, position)
        layout.append(
            (
                group,
                storage.nbytes(),
                tensor.storage_offset(),
                tensor.dtype,
                tuple(tensor.shape),
                tuple(tensor.stride()),
            )
        )
    return layout
