"""Copies: the tensors of a step's models and optimizers once more, with a job's bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from laneway.capture import optimizers
from laneway.capture.fake_job import copy_hooks
from laneway.capture.kept_gradients import gradient_path
from laneway.capture.optimizers import OptimizerLayout, StateTensor
from laneway.graph.slots import Path, Slot


@dataclasses.dataclass(frozen=True)
class State:
    """Whose state a job has: modules by the first part of their paths, optimizers with the first
    part of theirs, their layout, and whether they have taken a step; the parameters whose gradients
    the job keeps and that have one."""

    modules: list[tuple[str, torch.nn.Module]]
    optimizers: list[tuple[Optimizer, Path, OptimizerLayout, bool]] = dataclasses.field(
        default_factory=list
    )
    gradients: frozenset[Path] = frozenset()


class Copies:
    """`storages` are copies of the slots' bytes, which the copied tensors lie on."""

    def __init__(
        self, state: State, slots: list[Slot], storages: list[torch.UntypedStorage]
    ) -> None:
        self._state = state
        self._views = {
            tensor.path: tensor.view(storages[slot.index])
            for slot in slots
            for tensor in slot.tensors
        }
        self._of_path: dict[Path, torch.Tensor] = {}
        self.of: dict[int, torch.Tensor] = {}  # id of a tensor of the user's -> its copy
        for prefix, module in state.modules:
            for name, tensor in _tensors_of(module):
                self._add(tensor, (prefix, name))
        self.optimizers = [self._optimizer(*described) for described in state.optimizers]

    def view(self, path: Path) -> torch.Tensor | None:
        """What the job has at a path; None where it has nothing."""
        return self._views.get(path)

    def left(self) -> Iterator[tuple[Path, torch.Tensor]]:
        """What the models and optimizers hold now, by its path.

        Requires: the copies are in the places of the user's tensors."""
        for prefix, module in self._state.modules:
            for name, tensor in _tensors_of(module):
                yield (prefix, name), tensor
        for copied, (_, prefix, _, _) in zip(self.optimizers, self._state.optimizers):
            for index, parameter in enumerate(optimizers.parameters_of(copied)):
                for key, entry in copied.state.get(parameter, {}).items():
                    if isinstance(entry, torch.Tensor):
                        yield (*prefix, index, key), entry

    def gradient(self, path: Path) -> torch.Tensor | None:
        """The gradient of the parameter that has this path."""
        return self._of_path[path].grad

    def _add(self, tensor: torch.Tensor, path: Path) -> None:
        if id(tensor) in self.of:
            return
        view = self._views.get(path)
        data = tensor.detach().clone() if view is None else view
        copied = torch.Tensor._make_subclass(type(tensor), data, tensor.requires_grad)
        copied.__dict__.update(tensor.__dict__)
        if copied.requires_grad:
            copy_hooks(tensor, copied)
        if path in self._state.gradients:
            copied.grad = self._views[gradient_path(path)]
        self.of[id(tensor)] = self._of_path[path] = copied

    def _optimizer(
        self, optimizer: Optimizer, prefix: Path, layout: OptimizerLayout, stepped: bool
    ) -> Optimizer:
        parameters = optimizers.parameters_of(optimizer)
        for index, parameter in enumerate(parameters):
            self._add(parameter, (*prefix, index, "parameter"))
        copied = optimizers.copy_optimizer(optimizer)
        optimizers.replace_parameters(copied, self.of)
        places: dict[int, Path] = {
            id(entry): (*prefix, index, key)
            for index, entries in layout.entries.items()
            for key, entry in entries.items()
        }

        def read(entry: StateTensor) -> torch.Tensor:
            return self._views[places[id(entry)]]

        state = layout.state_dict(optimizer, read, stepped)["state"]
        held: dict[Any, dict[str, Any]] = {
            self.of[id(parameters[index])]: entries for index, entries in state.items()
        }
        copied.__dict__["state"] = optimizers.state_holder(held)
        return copied


def _tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in module.named_parameters(remove_duplicate=False):
        if not is_lazy(tensor):
            yield name, tensor
    for name, tensor in module.named_buffers(remove_duplicate=False):
        if not is_lazy(tensor):
            yield name, tensor
