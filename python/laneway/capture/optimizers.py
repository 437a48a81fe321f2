"""A copy of the user's optimizer, so that a step on fake tensors does not change the original.

State that torch creates in the first step is created before the capture, so that one graph fits all
steps: zeros as torch makes them, and for SGD a momentum of *negative* zero, which makes momentum *
buffer + gradient equal the copy of the gradient that eager's first step takes, sign of zero
included. The copy holds fakes of parameters and state, and a symbol for each learning rate.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import SGD, Optimizer

from laneway.capture.value_table import ValueTable
from laneway.errors import CaptureError
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Path, Slot, SlotTable

# Entries of a parameter group that may change between iterations without a new capture.
PER_ITERATION = ("lr",)


@dataclasses.dataclass(frozen=True)
class StateTensor:
    """An entry of the optimizer's state that is tensor `position` of slot `slot`."""

    slot: int
    position: int
    created: bool  # eager has no such entry before its first step


@dataclasses.dataclass
class OptimizerLayout:
    """How the slots form the optimizer's state: parameter index (as in state_dict) -> key -> entry,
    which is a StateTensor or a value that no step changes."""

    entries: dict[int, dict[str, StateTensor | Any]]

    def state_dict(
        self,
        optimizer: Optimizer,
        read: Callable[[StateTensor], torch.Tensor],
        stepped: bool = True,
    ) -> dict[str, Any]:
        """torch's own layout, with current hyperparameters of `optimizer` and tensors from `read`.
        `stepped` False leaves out what eager would not have before its first step."""
        state: dict[int, dict[str, Any]] = {}
        for index, entries in self.entries.items():
            kept = {
                key: read(entry) if isinstance(entry, StateTensor) else entry
                for key, entry in entries.items()
                if stepped or not (isinstance(entry, StateTensor) and entry.created)
            }
            if kept:
                state[index] = kept
        return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}

    def renumbered(self, kept: list[int]) -> OptimizerLayout:
        """The layout after slot kept[n] has become slot n and all others are removed."""
        numbers = {old: new for new, old in enumerate(kept)}
        entries: dict[int, dict[str, Any]] = {}
        for index, of_parameter in self.entries.items():
            left = {
                key: dataclasses.replace(entry, slot=numbers[entry.slot])
                if isinstance(entry, StateTensor)
                else entry
                for key, entry in of_parameter.items()
                if not isinstance(entry, StateTensor) or entry.slot in numbers
            }
            if any(isinstance(entry, StateTensor) for entry in left.values()):
                entries[index] = left
        return OptimizerLayout(entries)


def state_holder(state: dict[Any, dict[str, Any]]) -> collections.defaultdict:
    """A dictionary of the type in which torch's optimizers keep their state."""
    return collections.defaultdict(dict, state)


def needs_closure(optimizer: Optimizer) -> bool:
    """Whether its step() cannot be called without a closure, as LBFGS's."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """All parameters in the order of state_dict's indices."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def initial_state(optimizer: Optimizer) -> tuple[dict[int, dict[str, Any]], set[tuple[int, str]]]:
    """The state before the second step: the state that `optimizer` has, and the state that its
    first step would add.

    Result: parameter index -> key -> tensor or value, and the (index, key) that were created here.
    The user's optimizer is not touched.
    """
    copied = copy_optimizer(optimizer)
    real = parameters_of(optimizer)
    stand_ins = [_stand_in(p) for p in real]
    copied.state = collections.defaultdict(dict)
    for parameter, stand_in in zip(real, stand_ins):
        if parameter in optimizer.state:
            copied.state[stand_in] = dict(optimizer.state[parameter])
    replace_parameters(copied, {id(p): s for p, s in zip(real, stand_ins)})
    before = {index: set(copied.state.get(s, {})) for index, s in enumerate(stand_ins)}

    for group in copied.param_groups:
        _create_group_state(copied, group)
    state = {
        index: dict(copied.state[s]) for index, s in enumerate(stand_ins) if copied.state.get(s)
    }
    created = {(i, key) for i, entries in state.items() for key in entries if key not in before[i]}
    return state, created


def copy_optimizer(optimizer: Optimizer) -> Optimizer:
    """A shallow copy with parameter groups of its own. It has all of __dict__ (loss scaling looks
    for attributes), except a step() that a scheduler has bound to the original."""
    copied = object.__new__(type(optimizer))
    copied.__dict__.update(optimizer.__dict__)
    copied.__dict__.pop("step", None)
    copied.__dict__["param_groups"] = [dict(group) for group in optimizer.param_groups]
    return copied


@contextlib.contextmanager
def standing_in(copied: Optimizer, real: Optimizer) -> Iterator[None]:
    """Inside, `real` has the attributes of `copied`, so that a closure may use the optimizer that
    it refers to. Afterwards `real` is as before, the dictionary of its attributes included."""
    attributes = real.__dict__
    real.__dict__ = copied.__dict__
    try:
        yield
    finally:
        real.__dict__ = attributes


def replace_parameters(copied: Optimizer, by_id: dict[int, torch.Tensor]) -> None:
    """Puts `by_id[id(p)]` in place of every parameter p of a copied optimizer's groups."""
    for group in copied.param_groups:
        group["params"] = [by_id[id(p)] for p in group["params"]]


def check_state(copied: Optimizer, layout: OptimizerLayout, table: ValueTable) -> None:
    """Raises CaptureError when the step made state without a slot; `table` is that of its run."""
    name = type(copied).__name__
    for index, parameter in enumerate(parameters_of(copied)):
        known = layout.entries.get(index, {})
        for key, entry in copied.state.get(parameter, {}).items():
            if key not in known:
                raise CaptureError(
                    f"{name} makes its state {key!r} in its first step, which cannot be made "
                    "beforehand",
                    remedy="run one eager step first, then make the captured step",
                )
            if not isinstance(entry, torch.Tensor):
                if entry is not known[key] and entry != known[key]:
                    raise CaptureError(
                        f"{name} changes its state {key!r}, which is no tensor but "
                        f"{type(entry).__name__}, in every step",
                        remedy="keep it as a tensor that the step updates in place",
                    )
                continue
            value = table.find(entry)
            if value is None or not table.is_persistent(value):
                raise CaptureError(
                    f"{name} replaces its state {key!r} in every step instead of updating it "
                    "in place",
                    remedy="write into it, with copy_(), or use an optimizer of torch.optim",
                )


def add_state_slots(
    optimizer: Optimizer, slots: SlotTable, prefix: Path
) -> tuple[OptimizerLayout, dict[tuple[int, str], torch.Tensor]]:
    """Gives every tensor of the optimizer's state a slot, with the path (*prefix, parameter index,
    key). Result: the layout, and the tensors by (parameter index, key)."""
    state, created = initial_state(optimizer)
    tensors: dict[tuple[int, str], torch.Tensor] = {}
    entries: dict[int, dict[str, Any]] = {}
    for index, of_parameter in state.items():
        entries[index] = {}
        for key, value in of_parameter.items():
            if not isinstance(value, torch.Tensor):
                entries[index][key] = value
                continue
            made = (index, key) in created
            path = (*prefix, index, key)
            slot = slots.add(value, path, SlotKind.optimizer_state, created=made)
            entries[index][key] = StateTensor(slot.index, _position(slot, path), made)
            tensors[index, key] = value
    return OptimizerLayout(entries), tensors


def _position(slot: Slot, path: tuple) -> int:
    return next(i for i, tensor in enumerate(slot.tensors) if tensor.path == path)


def _stand_in(parameter: torch.Tensor) -> torch.nn.Parameter:
    """A leaf on the parameter's memory with a zero gradient that costs no memory."""
    stand_in = torch.nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    if parameter.requires_grad:
        stand_in.grad = torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)
    return stand_in


def _create_group_state(copied: Optimizer, group: dict[str, Any]) -> None:
    trained = [p for p in group["params"] if p.grad is not None]
    if isinstance(copied, SGD):
        if group["momentum"] != 0:
            _create_momentum(copied, group, trained)
        return
    create = getattr(copied, "_init_group", None)
    if create is None:
        return  # check_state() refuses other state that the step makes
    lists = len(inspect.signature(create).parameters) - 1
    with torch.no_grad():
        create(group, *([] for _ in range(lists)))


def _create_momentum(copied: Optimizer, group: dict[str, Any], trained: list[Any]) -> None:
    for parameter in trained:
        state = copied.state[parameter]
        if state.get("momentum_buffer") is not None:
            continue
        if group["dampening"] != 0:
            raise CaptureError(
                f"SGD with dampening {group['dampening']} treats its first step differently from "
                "all others",
                remedy="run one eager step first, then make the captured step, or use dampening=0",
            )
        zeros = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        state["momentum_buffer"] = zeros.detach().neg_()
