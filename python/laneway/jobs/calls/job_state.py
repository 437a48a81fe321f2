"""JobState: reads and writes a training job's state in torch's own layouts: parameters, buffers,
the optimizer's state, and the gradients of a job that keeps gradients between calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given, loss_scaling
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.kept_gradients import gradient_path
from laneway.capture.loss_scaling import CapturedScaler
from laneway.capture.optimizers import StateTensor, parameters_of
from laneway.errors import InvalidInput
from laneway.graph.slots import Path, Slot, SlotTensor
from laneway.jobs.calls import draws
from laneway.jobs.calls.job import Job


class JobState:
    """Reads and writes the state of `job`. `captured` is the job's first graph. `model` and
    `optimizer` are the client's, one or a list of several each: their names, groups and
    hyperparameters are used, their tensors are not. A list's states are a list too. `scaler` is the
    scaler of the graph that was called last, or of the first graph."""

    def __init__(
        self,
        captured: CapturedJobGraph,
        job: Job,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: Optimizer | Sequence[Optimizer] | None,
        scaler: CapturedScaler | None,
        shares_random: bool,
    ) -> None:
        """`shares_random`: the job draws from torch's default generator, not from its own."""
        self._slots = captured.slots
        self._layouts = captured.optimizer_layouts
        self._kept = captured.gradients.keys()
        self._scaler = scaler
        self._shares_random = shares_random
        self._job, self._model, self._optimizer = job, model, optimizer
        self._by_path = {t.path: (s, t) for s in captured.slots for t in s.tensors}

    def read(self, stepped: list[bool], gradients: Collection[Path]) -> dict[str, Any]:
        """The state: entries "model", "optimizer" and "random"; "gradients" where the job keeps
        gradients; "scaler" where the job uses a scaler. `stepped`: of each optimizer, whether it
        has taken at least one step. `gradients`: the parameters that have a gradient now."""
        storages, random = self._job.read_state(self._slots, not self._shares_random)

        def tensor(slot: Slot, described: SlotTensor) -> torch.Tensor:
            # Each tensor is a copy: tensors that are views of one storage share no memory here.
            return described.view(storages[slot.index])

        def model_state(number: int, model: torch.nn.Module) -> dict[str, Any]:
            state: dict[str, Any] = {}
            for key, current in model.state_dict().items():
                found = self._by_path.get(self._model_path(number, key))
                state[key] = tensor(*found) if found else current.detach().clone()
            return state

        def entry(state: StateTensor) -> torch.Tensor:
            slot = self._slots[state.slot]
            return tensor(slot, slot.tensors[state.position])

        models = (model_state(*numbered) for numbered in enumerate(given.all_of(self._model)))
        optimizers = (
            layout.state_dict(optimizer, entry, stepped=has_stepped)
            for layout, optimizer, has_stepped in zip(
                self._layouts, given.all_of(self._optimizer), stepped
            )
        )
        state = {
            "model": given.in_form_of(self._model, models),
            "optimizer": given.in_form_of(self._optimizer, optimizers),
            "random": draws.default_state() if self._shares_random else random,
        }
        if self._kept:
            state["gradients"] = {
                _name(path): tensor(*self._by_path[gradient_path(path)])
                for path in self._kept
                if path in gradients
            }
        if self._scaler is not None:
            state["scaler"] = self._scaler.state_dict(self._slots, storages)
        return state

    def write(self, state: dict[str, Any]) -> set[Path]:
        """Writes a state that `read` or plain torch made, and returns the parameters that have a
        gradient (none where `state` has no entry "gradients"). Raises InvalidInput, which names the
        entry that does not fit; then the job's state is unchanged."""
        storages, _ = self._job.read_state(self._slots)
        for number, entries in enumerate(parts_of(state, "model", self._model)):
            for key, value in entries.items():
                path = self._model_path(number, key)
                found = self._by_path.get(path)
                if found is not None:
                    _copy_into(found[1].view(storages[found[0].index]), value, "/".join(path))
        optimizer_states = parts_of(state, "optimizer", self._optimizer)
        for number, of_optimizer in enumerate(optimizer_states):
            self._write_optimizer(number, of_optimizer["state"], storages)
        if state.get("scaler"):
            loss_scaling.known(self._scaler).take(self._slots, storages, state["scaler"])
        present = self._write_gradients(state.get("gradients", {}), storages)
        for optimizer, of_optimizer in zip(given.all_of(self._optimizer), optimizer_states):
            for ours, theirs in zip(optimizer.param_groups, of_optimizer["param_groups"]):
                ours.update({key: theirs[key] for key in ("lr", "initial_lr") if key in theirs})
        random = None if self._shares_random else state.get("random")
        self._job.write_state(self._slots, storages, random)
        return present

    def _model_path(self, number: int, key: str) -> Path:
        return ("model", f"{number}.{key}" if given.is_list(self._model) else key)

    def _write_optimizer(
        self, number: int, state: dict[int, dict[str, Any]], storages: list
    ) -> None:
        where = "/".join(map(str, given.path_of(self._optimizer, "optimizer", number)))
        for index, entries in self._layouts[number].entries.items():
            for key, kept in entries.items():
                if not isinstance(kept, StateTensor):
                    continue
                slot = self._slots[kept.slot]
                target = slot.tensors[kept.position].view(storages[slot.index])
                value = state.get(index, {}).get(key)
                if value is None:
                    # torch would create the entry in its next step, as the capture did.
                    target.copy_(initial_value(slot))
                else:
                    _copy_into(target, torch.as_tensor(value), f"{where}/{index}/{key}")

    def _write_gradients(self, state: dict[str, torch.Tensor], storages: list) -> set[Path]:
        present: set[Path] = set()
        for path in self._kept:
            slot, described = self._by_path[gradient_path(path)]
            target = described.view(storages[slot.index])
            if _name(path) in state:
                _copy_into(target, state[_name(path)], f"gradients/{_name(path)}")
                present.add(path)
            else:
                target.zero_().neg_()
        return present


def parts_of(state: dict[str, Any], entry: str, ours: Any) -> list[dict[str, Any]]:
    """The states that are in state[entry], one for each of `ours`. Raises InvalidInput where there
    are not as many, or a list is given for one object, or none for a list."""
    states = state.get(entry)
    parts, count = given.all_of(states), len(given.all_of(ours))
    if given.is_list(states) != given.is_list(ours) or len(parts) != count:
        has, wants = (
            f"a list of {number} states" if is_list else ("one state" if number else "no state")
            for number, is_list in (
                (len(parts), given.is_list(states)),
                (count, given.is_list(ours)),
            )
        )
        raise InvalidInput(
            f"the entry {entry!r} has {has}, and {wants} is needed: the state must be that of the "
            "same models and optimizers, as state_dict() of their step gives it"
        )
    return parts


def release_created(slots: list[Slot]) -> None:
    """Frees the memory of state that the capture created, because the service has the bytes now.
    The first element of each tensor stays, for JobState.write: all elements of such state start
    with the same value."""
    for slot in slots:
        if slot.created and slot.initial.numel() > 0:
            slot.initial = slot.initial.reshape(-1)[:1].clone()


def load_optimizer(target: Optimizer, state: dict[str, Any], job: Optimizer) -> None:
    """Calls target.load_state_dict(state), and keeps the dtype of state whose dtype is not its
    parameter's (the product of NAdam's momenta), which torch would round to the parameter's dtype.
    `job` is the optimizer of the job; for a parameter whose dtype differs between `target` and
    `job`, torch's own conversion stays."""
    target.load_state_dict(state)
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for number, parameter, own in zip(numbers, parameters_of(target), parameters_of(job)):
        if parameter.dtype != own.dtype:
            continue
        loaded = target.state.get(parameter, {})
        for key, value in state["state"].get(number, {}).items():
            if isinstance(loaded.get(key), torch.Tensor) and loaded[key].dtype != value.dtype:
                loaded[key] = value.detach().clone().to(loaded[key].device)


def set_gradients(
    model: torch.nn.Module, kept: Collection[Path], gradients: dict[str, torch.Tensor]
) -> None:
    """Sets the gradients of the parameters `kept` of `model` to those of `gradients`, and to None
    where it has none."""
    by_name: dict[str, torch.nn.Parameter] = dict(model.named_parameters(remove_duplicate=False))
    for path in kept:
        parameter = by_name.get(_name(path))
        if parameter is not None:
            parameter.grad = gradients.get(_name(path))


def _name(path: Path) -> str:
    """A parameter's name in its model; for others the whole path, which names module or group."""
    return path[-1] if path[0] == "model" else "/".join(map(str, path))


def initial_value(slot: Slot) -> torch.Tensor:
    """The value with which every element of a created slot starts."""
    if not slot.created:
        raise InvalidInput(f"{slot.name} is missing from the optimizer's state")
    return slot.initial.reshape(-1)[0]


def _copy_into(target: torch.Tensor, value: torch.Tensor, where: str) -> None:
    if tuple(target.shape) != tuple(value.shape):
        raise InvalidInput(
            f"{where} has shape {list(value.shape)}, the job's has {list(target.shape)}"
        )
    target.copy_(value)
