"""Frames: what one call hands to the library, prepared once and filled per call.

The quick way takes calls that look exactly like the captured one (plain tensors of the right dtype,
shape and strides); everything else goes through InputSignature, which converts or explains.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.border import spanned_bytes
from laneway.capture.input_places import placed, reaches
from laneway.capture.signature import (
    GENERATOR,
    InputSignature,
    InputSpec,
    OtherForm,
    TensorInput,
)
from laneway.errors import InvalidInput
from laneway.jobs.calls import written_inputs
from laneway.native import bindings
from laneway.native.bindings import ffi


class Frame:
    """Native arrays for one call: inputs, an error, a place for a pending submission. Reused by
    later calls; `keep` holds the tensors whose addresses are in `inputs`, `targets` those of the
    caller's that the step writes."""

    __slots__ = ("inputs", "error", "pending", "keep", "targets")

    def __init__(self, count: int) -> None:
        self.inputs = ffi.new("laneway_input[]", max(1, count))
        self.error = bindings.new_error()
        self.pending = ffi.new("laneway_submission **")
        self.keep: list[Any] = []
        self.targets: list[Any] = []


class Binder:
    """Fills frames for the calls of one graph. `fixed` are tensors behind the signature's own
    inputs, the same in every call; `written` the positions of the tensors that the step writes,
    `gradients` of those to whose gradients it adds.
    Thread-safe: a frame belongs to one call at a time."""

    def __init__(
        self,
        signature: InputSignature,
        optimizers: Sequence[Optimizer],
        fixed: list[torch.Tensor],
        written: list[int],
        gradients: list[int],
    ) -> None:
        self._signature = signature
        self._optimizers = tuple(optimizers)
        self._fixed = fixed
        self._written, self._gradients = written, gradients
        self.count = len(signature.specs) + len(fixed)
        self._frames: list[Frame] = []
        self._told_of_copy = False
        specs = signature.specs
        self._arguments = [s for s in specs if s.source[0] == "input"]
        self._quick = signature.takes_plain_tensors()
        self._checks = [
            (s.dtype, torch.Size(s.sizes), s.strides, s.requires_grad, *_place(s))
            for s in self._arguments
        ]
        self._places = [_place(s)[0] for s in specs]
        # Of which optimizer, and of which of its groups; load_state_dict() replaces the groups.
        groups = [(o, i) for o in self._optimizers for i in range(len(o.param_groups))]
        self._rates = [
            (position, *groups[s.source[1]], isinstance(s, TensorInput))
            for position, s in enumerate(specs)
            if s.source[0] == "param_group"
        ]
        # Of the states of generators, which whoever runs the frame puts in.
        self.generator_positions = [p for p, s in enumerate(specs) if s.source[0] == GENERATOR]
        self._bytes = [
            spanned_bytes(s.sizes, s.strides, s.dtype) + place if isinstance(s, TensorInput) else 0
            for s, place in zip(specs, self._places)
        ]

    def take(self, args: tuple, kwargs: dict[str, Any]) -> Frame:
        """A frame with this call's inputs. Raises OtherForm when they are not of this graph's
        form, InvalidInput when one that the step writes shares memory with another."""
        frame = self._frames.pop() if self._frames else self._new_frame()
        if kwargs or not self._quick or not self._fill_quickly(frame, args):
            try:
                self._fill(frame, args, kwargs)
            except OtherForm:
                self.give_back(frame)
                raise
        if self._written or self._gradients:
            try:
                frame.targets = written_inputs.targets(args, kwargs, self._written, self._gradients)
            except InvalidInput:
                self.give_back(frame)
                raise
        return frame

    def give_back(self, frame: Frame) -> None:
        frame.keep.clear()
        frame.targets = []
        self._frames.append(frame)

    def _new_frame(self) -> Frame:
        frame = Frame(self.count)
        for i, size in enumerate(self._bytes):
            frame.inputs[i].bytes = size
        for i, tensor in enumerate(self._fixed, start=len(self._bytes)):
            frame.inputs[i].data = tensor.data_ptr()
            frame.inputs[i].bytes = tensor.numel() * tensor.element_size()
        return frame

    def _fill_quickly(self, frame: Frame, args: tuple) -> bool:
        if len(args) != len(self._checks):
            return False
        inputs, keep = frame.inputs, frame.keep
        for position, (tensor, check) in enumerate(zip(args, self._checks)):
            if (
                type(tensor) is not torch.Tensor
                or tensor.layout is not torch.strided  # others have no strides to ask for
                or tensor.dtype is not check[0]
                or tensor.shape != check[1]
                or tensor.stride() != check[2]
                or tensor.requires_grad is not check[3]
                or not tensor.is_cpu
                or tensor.is_neg()
                or tensor.is_conj()
            ):
                keep.clear()
                return False
            address, place = tensor.data_ptr(), check[4]
            if address & check[5] != place or (place and not reaches(tensor, place)):
                keep.clear()
                return False
            inputs[position].data = address - place
            keep.append(tensor)
        for position, optimizer, group, as_tensor in self._rates:
            self._set_rate(frame, position, optimizer.param_groups[group]["lr"], as_tensor)
        return True

    def _set_rate(self, frame: Frame, position: int, rate: Any, as_tensor: bool) -> None:
        if not as_tensor:
            frame.inputs[position].real = float(rate)
            return
        spec = self._signature.specs[position]
        tensor = torch.as_tensor(rate, dtype=spec.dtype).detach()
        frame.inputs[position].data = tensor.data_ptr()
        frame.keep.append(tensor)

    def _fill(self, frame: Frame, args: tuple, kwargs: dict[str, Any]) -> None:
        values = self._signature.values(args, kwargs, self._optimizers)
        for position, (value, place) in enumerate(zip(values, self._places)):
            if isinstance(value, torch.Tensor):
                if place and not reaches(value, place):
                    self._tell_of_copy(position, place)
                    value = placed(value, place)
                frame.inputs[position].data = value.data_ptr() - place
                frame.keep.append(value)
            elif value is not None:
                frame.inputs[position].real = value

    def _tell_of_copy(self, position: int, place: int) -> None:
        if not self._told_of_copy:
            self._told_of_copy = True
            warnings.warn(
                f"input {position} begins {place} bytes behind a multiple of 16, and nothing of "
                "its memory lies before it: bits of products depend on that, so each call copies "
                "it to such a place; pass it with .clone(), in eager code too",
                RuntimeWarning,
                stacklevel=2,
            )


def _place(spec: InputSpec) -> tuple[int, int]:
    """Where the tensor begins, and of which of an address's bits that is told."""
    place = spec.place if isinstance(spec, TensorInput) else None
    return (0, 0) if place is None else (place, 15)
