"""JobState: reads and writes a training job's state in torch's own layouts: parameters, buffers,
the optimizer's state, and the gradients of a job that keeps gradients between calls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import loss_scaling
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.kept_gradients import gradient_path
from laneway.capture.loss_scaling import CapturedScaler
from laneway.capture.optimizers import StateTensor, parameters_of
from laneway.errors import InvalidInput
from laneway.graph.slots import Path, Slot, SlotTensor
from laneway.jobs import draws
from laneway.jobs.job import Job


class JobState:
    """Reads and writes the state of `job`. `captured` is the job's first graph. `model` and
    `optimizer` are the client's: their names, groups and hyperparameters are used, their tensors
    are not. `scaler` is the scaler of the graph that was called last, or of the first graph."""

    def __init__(
        self,
        captured: CapturedJobGraph,
        job: Job,
        model: torch.nn.Module,
        optimizer: Optimizer,
        scaler: CapturedScaler | None,
        shares_random: bool,
    ) -> None:
        """`shares_random`: the job draws from torch's default generator, not from its own."""
        self._slots = captured.slots
        self._layout = captured.optimizer_layout
        self._kept = captured.gradients.keys()
        self._scaler = scaler
        self._shares_random = shares_random
        self._job, self._model, self._optimizer = job, model, optimizer
        self._by_path = {t.path: (s, t) for s in captured.slots for t in s.tensors}

    def read(self, stepped: bool, gradients: Collection[Path]) -> dict[str, Any]:
        """The state: entries "model", "optimizer" and "random"; "gradients" where the job keeps
        gradients; "scaler" where the job uses a scaler. `stepped`: the optimizer has taken at least
        one step. `gradients`: the parameters that have a gradient now."""
        storages, random = self._job.read_state(self._slots, not self._shares_random)

        def tensor(slot: Slot, described: SlotTensor) -> torch.Tensor:
            # Each tensor is a copy: tensors that are views of one storage share no memory here.
            return described.view(storages[slot.index])

        model: dict[str, Any] = {}
        for key, current in self._model.state_dict().items():
            found = self._by_path.get(("model", key))
            model[key] = tensor(*found) if found else current.detach().clone()

        def entry(state: StateTensor) -> torch.Tensor:
            slot = self._slots[state.slot]
            return tensor(slot, slot.tensors[state.position])

        state = {
            "model": model,
            "optimizer": self._layout.state_dict(self._optimizer, entry, stepped=stepped),
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
        for key, given in state["model"].items():
            found = self._by_path.get(("model", key))
            if found is not None:
                _copy_into(found[1].view(storages[found[0].index]), given, f"model/{key}")
        self._write_optimizer(state["optimizer"]["state"], storages)
        if state.get("scaler"):
            loss_scaling.known(self._scaler).take(self._slots, storages, state["scaler"])
        present = self._write_gradients(state.get("gradients", {}), storages)
        for ours, given in zip(self._optimizer.param_groups, state["optimizer"]["param_groups"]):
            for key in ("lr", "initial_lr"):
                if key in given:
                    ours[key] = given[key]
        random = None if self._shares_random else state.get("random")
        self._job.write_state(self._slots, storages, random)
        return present

    def _write_optimizer(self, given: dict[int, dict[str, Any]], storages: list) -> None:
        for index, entries in self._layout.entries.items():
            for key, kept in entries.items():
                if not isinstance(kept, StateTensor):
                    continue
                slot = self._slots[kept.slot]
                target = slot.tensors[kept.position].view(storages[slot.index])
                value = given.get(index, {}).get(key)
                if value is None:
                    # torch would create the entry in its next step, as the capture did.
                    target.copy_(initial_value(slot))
                else:
                    _copy_into(target, torch.as_tensor(value), f"optimizer/{index}/{key}")

    def _write_gradients(self, given: dict[str, torch.Tensor], storages: list) -> set[Path]:
        present: set[Path] = set()
        for path in self._kept:
            slot, described = self._by_path[gradient_path(path)]
            target = described.view(storages[slot.index])
            if _name(path) in given:
                _copy_into(target, given[_name(path)], f"gradients/{_name(path)}")
                present.add(path)
            else:
                target.zero_().neg_()
        return present


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
    model: torch.nn.Module, kept: Collection[Path], given: dict[str, torch.Tensor]
) -> None:
    """Sets the gradients of the parameters `kept` of `model` to those of `given`, and to None where
    `given` has none."""
    by_name: dict[str, torch.nn.Parameter] = dict(model.named_parameters(remove_duplicate=False))
    for path in kept:
        parameter = by_name.get(_name(path))
        if parameter is not None:
            parameter.grad = given.get(_name(path))


def _name(path: Path) -> str:
    """A parameter's name in its model; for others the whole path, which names module or group."""
    return path[-1] if path[0] == "model" else "/".join(map(str, path))


def initial_value(slot: Slot) -> torch.Tensor:
    """The value with which every element of a created slot starts."""
    if not slot.created:
        raise InvalidInput(f"{slot.name} is missing from the optimizer's state")
    return slot.initial.reshape(-1)[0]


def _copy_into(target: torch.Tensor, given: torch.Tensor, where: str) -> None:
    if tuple(target.shape) != tuple(given.shape):
        raise InvalidInput(
            f"{where} has shape {list(given.shape)}, the job's has {list(target.shape)}"
        )
    target.copy_(given)
