"""Alike: captures that steps share which were made like one another (train_step's `like`).

A graph holds no tensor of the step that it was captured for. Another step that is like that one
(see likeness.py) has the same graph: its own tensors take the places of the other's by their paths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given, optimizers
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.kept_gradients import gradient_path, without_gradient
from laneway.errors import InvalidInput
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Path, Slot, SlotTable
from laneway.jobs.calls.graph_call import Form
from laneway.jobs.forms.likeness import Likeness
from laneway.native.process import ProcessLock

# Captures that are kept for steps yet to come: the forms of call of a few models.
_MOST = 32

# Of the constants of a capture, which are kept as they were then.
_MOST_CONSTANT_BYTES = 64 << 20

Modules = Sequence[tuple[str, torch.nn.Module]]


@dataclasses.dataclass(frozen=True, eq=False)
class Kept:
    """A capture without its step: no tensor and no module is in it but constants. `first` is the
    capture whose image it joined; None: it has its own."""

    likeness: Likeness
    captured: CapturedJobGraph
    encoded: bytes
    modes: list[tuple[str, str, bool]]  # as CapturedJobGraph.modes, the modules by their names
    first: Kept | None


class Alike:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._kept: list[Kept] = []  # the one used last at the end
        self.refused: str | None = None  # why the last capture that was not kept was not

    def find(
        self, likeness: Likeness, first: Kept | None, args: tuple, kwargs: dict[str, Any]
    ) -> Kept | None:
        """The capture of a step like this one, over the image of `first`, for this form of call."""
        with self._lock:
            for kept in reversed(self._kept):
                form = Form(kept.captured.inputs, kept.captured.guards)
                same = kept.first is first and likeness.difference(kept.likeness) is None
                if same and form.difference(args, kwargs) is None:
                    self._kept.remove(kept)
                    self._kept.append(kept)
                    return kept
        return None

    def check(self, likeness: Likeness) -> None:
        """Raises InvalidInput, with the difference, when the step is not like any that was
        captured; nothing when none was."""
        with self._lock:
            found = [likeness.difference(kept.likeness) for kept in self._kept]
            refused = self.refused
        if None in found or (not found and refused is None):
            return
        words = f"{found[-1]}, and that is a constant of the captured graph" if found else refused
        raise InvalidInput(
            f"this step is not like the one that it was made like: {words}; make the step without "
            "like=, which captures it anew"
        )

    def refuse(self, why: str) -> None:
        """Notes why the captures of a step cannot be another's."""
        with self._lock:
            self.refused = why

    def add(
        self,
        likeness: Likeness,
        captured: CapturedJobGraph,
        encoded: bytes,
        modules: Modules,
        first: Kept | None = None,
    ) -> Kept | None:
        """Keeps a capture; None, and why is noted, when it belongs to its step alone."""
        why = _why_alone(captured)
        if why is not None:
            return self.refuse(why)
        names = {
            id(module): (prefix, name)
            for prefix, root in modules
            for name, module in root.named_modules()
        }
        if any(id(module) not in names for module, _ in captured.modes):
            return self.refuse("it changes the mode of a module that is not in its models")
        modes = [(*names[id(module)], training) for module, training in captured.modes]
        slots = [_without_tensors(slot) for slot in captured.slots]
        own = dataclasses.replace(captured, slots=slots, modes=[], uses=captured.uses.unbound())
        kept = Kept(likeness, own, encoded, modes, first)
        with self._lock:
            self._kept.append(kept)
            del self._kept[:-_MOST]
        return kept


def bound(
    kept: Kept,
    modules: Modules,
    given_optimizer: Optimizer | Sequence[Optimizer] | None,
    functions: Sequence[Any],
    slots: list[Slot] | None = None,
) -> CapturedJobGraph:
    """The capture as that of another step, which is like the one that it was made for. `functions`
    are those that the step calls; `slots` those of its job, if it has one. Raises InvalidInput when
    a slot of the graph's image has no counterpart in the step, or another layout."""
    named = {
        (prefix, name): module for prefix, root in modules for name, module in root.named_modules()
    }
    modes = [(named[prefix, name], training) for prefix, name, training in kept.modes]
    if slots is None:
        table = _slots_of(modules, given_optimizer, kept.captured.gradients)
        slots = [_counterpart(slot, table) for slot in kept.captured.slots]
    uses = kept.captured.uses.bound([*(root for _, root in modules), *functions])
    return dataclasses.replace(kept.captured, slots=slots, modes=modes, uses=uses)


def _slots_of(
    modules: Modules,
    given_optimizer: Optimizer | Sequence[Optimizer] | None,
    gradients: dict[Path, bool],
) -> SlotTable:
    """The slots that a capture of the step would begin with, in no particular order."""
    table = SlotTable()
    paths: dict[int, Path] = {}

    def add(tensor: torch.Tensor, path: Path, kind: SlotKind) -> None:
        paths.setdefault(id(tensor), path)
        table.add(tensor, path, kind)
        if path in gradients:
            real = tensor.grad
            gradient = without_gradient(tensor) if real is None else real.detach()
            table.add(gradient, gradient_path(path), SlotKind.gradient, created=real is None)

    for prefix, root in modules:
        for name, parameter in root.named_parameters(remove_duplicate=False):
            add(parameter, (prefix, name), SlotKind.parameter)
        for name, buffer in root.named_buffers(remove_duplicate=False):
            add(buffer, (prefix, name), SlotKind.buffer)
    for number, optimizer in enumerate(given.all_of(given_optimizer)):
        prefix = given.path_of(given_optimizer, "optimizer", number)
        for index, parameter in enumerate(optimizers.parameters_of(optimizer)):
            if id(parameter) not in paths:
                add(parameter, (*prefix, index, "parameter"), SlotKind.parameter)
        optimizers.add_state_slots(optimizer, table, prefix)
    return table


def _counterpart(slot: Slot, table: SlotTable) -> Slot:
    if slot.kind == SlotKind.constant:
        return slot
    own = table.find_path(slot.path)
    facts = (slot.nbytes, slot.created, slot.kind, set(slot.tensors))
    if own is None or facts != (own.nbytes, own.created, own.kind, set(own.tensors)):
        raise InvalidInput(
            f"the step is not like the one that it was made like: {slot.name} is not what it is "
            "there; make the step without like="
        )
    return dataclasses.replace(slot, initial=own.initial)


def _without_tensors(slot: Slot) -> Slot:
    """The bytes of constants are the graph's; those of all others are the step's."""
    constant = slot.kind == SlotKind.constant
    initial = slot.initial_bytes().clone() if constant else torch.empty(0)
    return dataclasses.replace(slot, initial=initial, tensors=list(slot.tensors))


def _why_alone(captured: CapturedJobGraph) -> str | None:
    """Why no other step can have the capture; None when one can."""
    if captured.scaler is not None:
        return "that one uses a GradScaler, whose state is its own"
    if captured.outputs.left:
        return f"that one sets {captured.outputs.left[0].name!r} of a module, which is its own"
    if captured.uses.alone is not None:
        return f"of that one, {captured.uses.alone}, which is its own"
    results = [leaf[1] for leaf in captured.outputs.leaves if _is_constant(leaf)]
    simple = (bool, int, float, str, bytes, type(None))
    other = next((type(result) for result in results if type(result) not in simple), None)
    if other is not None:
        return f"that one returns a {other.__name__}, which is its own"
    constants = sum(s.nbytes for s in captured.slots if s.kind == SlotKind.constant)
    if constants > _MOST_CONSTANT_BYTES:
        return f"that one has constants of {constants >> 20} MiB, which are not kept twice"
    return None


def _is_constant(leaf: Any) -> bool:
    return not isinstance(leaf, int) and leaf[0] == "constant"
