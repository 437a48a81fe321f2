"""OptimizerMirror: the state of the client's optimizer, as it follows the slots of a job."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.hook_marks import without_effect
from laneway.capture.optimizers import OptimizerLayout, StateTensor, parameters_of
from laneway.errors import InvalidInput
from laneway.graph.slots import Slot, SlotTensor
from laneway.jobs.calls import slot_bytes
from laneway.jobs.calls.job import Job
from laneway.jobs.calls.job_state import initial_value
from laneway.jobs.watch.watched import (
    WatchedList,
    WatchedState,
    Watcher,
    tell,
    unwatch,
    watch,
)

_attached: weakref.WeakSet[OptimizerMirror] = weakref.WeakSet()


class OptimizerMirror:
    """Not thread-safe: its owner serialises the calls, inside quietly(). `state_watcher` is told of
    reads of the state, `parameter_watcher` of reads of the groups' parameters; `replaced()` is
    called when the client has loaded a state into the optimizer."""

    def __init__(
        self,
        optimizer: Optimizer,
        layout: OptimizerLayout,
        state_watcher: Watcher,
        parameter_watcher: Watcher,
        replaced: Callable[[], None],
    ) -> None:
        self._optimizer, self._layout = optimizer, layout
        self._state_watcher, self._parameter_watcher = state_watcher, parameter_watcher
        hooks = [
            optimizer.register_state_dict_pre_hook(without_effect(_BeforeRead(state_watcher))),
            optimizer.register_load_state_dict_post_hook(without_effect(_Loaded(replaced))),
        ]
        self._hooks = hooks
        _attached.add(self)
        # As the job knows them; a capture gives the optimizer others for a while.
        self._parameters = parameters_of(optimizer)
        self._held: dict[Any, dict[str, Any]] = optimizer.__dict__["state"]
        self.stale: set[int] = set()

    def attach(self) -> None:
        """Watches the optimizer as it is now."""
        self._parameters = parameters_of(self._optimizer)
        attributes = self._optimizer.__dict__
        self._held = watch(attributes["state"], WatchedState, self._state_watcher)
        attributes["state"] = self._held
        for group in self._optimizer.param_groups:
            group["params"] = watch(group["params"], WatchedList, self._parameter_watcher)

    def detach(self) -> None:
        """Watches it no more."""
        attributes = self._optimizer.__dict__
        attributes["state"] = unwatch(attributes["state"], _plain_state, self._state_watcher)
        for group in self._optimizer.param_groups:
            group["params"] = unwatch(group["params"], list, self._parameter_watcher)
        for hook in self._hooks:
            hook.remove()
        _attached.discard(self)

    def is_attached(self) -> bool:
        """Whether the optimizer still has the state that attach() saw."""
        return type(self._optimizer.__dict__["state"]) is WatchedState

    def refresh(self, job: Job, slots: list[Slot], stepped: bool) -> None:
        """Brings the client's state up to date; before the optimizer's first step it has none of
        the state that this step makes."""
        placed: dict[int, list[slot_bytes.Placed]] = {}
        for parameter, key, entry in self._entries(self._parameters):
            if not isinstance(entry, StateTensor):
                if stepped:
                    self._of(parameter).setdefault(key, entry)
                continue
            if entry.created and not stepped:
                continue
            described = slots[entry.slot].tensors[entry.position]
            tensor = self._of(parameter).get(key)
            if not _fits(tensor, described):
                tensor = described.view(torch.UntypedStorage(slots[entry.slot].nbytes))
                self._of(parameter)[key] = tensor
            elif entry.slot not in self.stale:
                continue
            placed.setdefault(entry.slot, []).append((described, tensor))
        slot_bytes.read_into(job, placed, slots)
        self.stale.clear()

    def push(self, job: Job, slots: list[Slot]) -> bool:
        """Gives the job what differs in the client's state, which is up to date otherwise; whether
        there is any state. Raises InvalidInput, and the job is as it was, for a tensor that does
        not fit."""
        self._check_apart()
        placed: dict[int, list[slot_bytes.Placed]] = {}
        names: dict[int, str] = {}
        present = False
        for parameter, key, entry in self._entries(parameters_of(self._optimizer)):
            if not isinstance(entry, StateTensor):
                continue
            slot = slots[entry.slot]
            described = slot.tensors[entry.position]
            value = dict.get(self._optimizer.__dict__["state"], parameter, {}).get(key)
            present = present or value is not None
            if value is None:  # torch would make the entry in its next step, as the capture did
                tensor = described.view(torch.UntypedStorage(slot.nbytes))
                tensor.copy_(initial_value(slot))
            else:
                tensor = torch.as_tensor(value).detach()
                if tensor.dtype != described.dtype and tuple(tensor.shape) == described.sizes:
                    tensor = tensor.to(described.dtype)
            placed.setdefault(entry.slot, []).append((described, tensor))
            names[entry.slot] = slot.name
        differing = slot_bytes.differing(job, placed, slots)
        if differing:
            slot_bytes.write_from(job, {n: placed[n] for n in differing}, slots, names)
        return present

    def _check_apart(self) -> None:
        """Raises InvalidInput when tensors of the state are another job's optimizer's, too."""
        own, state = _storages(self._optimizer), self._optimizer.__dict__["state"]
        others = [m._optimizer for m in list(_attached)]
        for other in others:
            if other.__dict__["state"] is not state and own & _storages(other):
                raise InvalidInput(
                    f"the state of this {type(self._optimizer).__name__} shares tensors with that "
                    "of another optimizer, as load_state_dict() of its state_dict() leaves it, and "
                    "each is in a job of its own: load a copy, copy.deepcopy(other.state_dict())"
                )

    def _entries(self, parameters: list[torch.Tensor]) -> list[tuple[torch.Tensor, str, Any]]:
        return [
            (parameters[index], key, entry)
            for index, entries in self._layout.entries.items()
            for key, entry in entries.items()
        ]

    def _of(self, parameter: torch.Tensor) -> dict[str, Any]:
        """The client's state of a parameter, made if there is none."""
        return self._held.setdefault(parameter, {})


def _storages(optimizer: Optimizer) -> set[int]:
    """Where the tensors of an optimizer's state lie."""
    state = optimizer.__dict__["state"]
    parts = (part for entries in dict.values(state) for part in dict.values(entries))
    tensors = (part for part in parts if isinstance(part, torch.Tensor) and part.numel() > 0)
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


class _BeforeRead:
    """A hook that tells of a read of the optimizer's state_dict()."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __call__(self, optimizer: Optimizer) -> None:
        tell([self._watcher])


class _Loaded:
    """A hook that tells of load_state_dict()."""

    def __init__(self, replaced: Callable[[], None]) -> None:
        self._replaced = replaced

    def __call__(self, optimizer: Optimizer) -> None:
        self._replaced()


def _plain_state(state: dict[Any, Any]) -> collections.defaultdict:
    return collections.defaultdict(dict, state)


def _fits(tensor: object, described: SlotTensor) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype == described.dtype
        and tuple(tensor.shape) == described.sizes
    )
