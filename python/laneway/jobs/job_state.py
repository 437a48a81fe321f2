"""A training job's state in torch's own layouts: parameters and buffers, the optimizer's state, and
gradients where they outlast a step."""

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
from laneway.jobs.job import Job


class JobState:
    """Reads and writes the state of `job`, whose first graph is `captured`. `model` and `optimizer`
    are the client's own: their names, groups and hyperparameters count, their tensors do not.
    `scaler` is that of the graph called last, or else of the first."""

    def __init__(
        self,
        captured: CapturedJobGraph,
        job: Job,
        model: torch.nn.Module,
        optimizer: Optimizer,
        scaler: CapturedScaler | None,
    ) -> None:
        self._slots = captured.slots
        self._layout = captured.optimizer_layout
        self._kept = captured.gradients.keys()
        self._scaler = scaler
        self._job, self._model, self._optimizer = job, model, optimizer
        self._by_path = {t.path: (s, t) for s in captured.slots for t in s.tensors}

    def read(self, stepped: bool, gradients: Collection[Path]) -> dict[str, Any]:
        """{"model", "optimizer"}, "gradients" of a job that keeps them, "scaler" of one that uses
        one. `stepped` says whether the optimizer took a step yet, `gradients` of which parameters
        there is one now."""
        storages, _ = self._job.read_state(self._slots)

        def tensor(slot: Slot, described: SlotTensor) -> torch.Tensor:
            # A copy of its own, as torch's state_dict after a deep copy: views are not shared.
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
        """Takes what `read` or plain torch gave; result: the parameters that have a gradient.
        Without "gradients" there are none. Raises InvalidInput naming the entry that does not
        fit; nothing has changed then."""
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
        self._job.write_state(self._slots, storages)
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
                    # torch would create it in its next step, as capture did.
                    target.copy_(_initial_value(slot))
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
    """Gives back the memory of state that capture made: its bytes are in the service now. Each
    tensor's first element stays, for JobState.write: such state starts with one value in all."""
    for slot in slots:
        if slot.created and slot.initial.numel() > 0:
            slot.initial = slot.initial.reshape(-1)[:1].clone()


def load_optimizer(target: Optimizer, state: dict[str, Any], job: Optimizer) -> None:
    """target.load_state_dict(state), but that state of another dtype than its parameter's (the
    product of NAdam's momenta) keeps it: torch would round it to the parameter's. `job` is the
    optimizer that the state is of; what a target of other dtypes wants, it gets as from torch."""
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
    """Puts the job's gradients into the parameters of `model`; those that it keeps and has none of
    now become None."""
    by_name: dict[str, torch.nn.Parameter] = dict(model.named_parameters(remove_duplicate=False))
    for path in kept:
        parameter = by_name.get(_name(path))
        if parameter is not None:
            parameter.grad = given.get(_name(path))


def _name(path: Path) -> str:
    """A parameter's name in its model; others are told apart by the module or group they are of."""
    return path[-1] if path[0] == "model" else "/".join(map(str, path))


def _initial_value(slot: Slot) -> torch.Tensor:
    """What every element of a created slot starts with."""
    if not slot.created:
        raise InvalidInput(f"{slot.name} is missing from the optimizer's state")
    return slot.initial.reshape(-1)[0]


def _copy_into(target: torch.Tensor, given: torch.Tensor, where: str) -> None:
    if tuple(target.shape) != tuple(given.shape):
        raise InvalidInput(
            f"{where} has shape {list(given.shape)}, the job's has {list(target.shape)}"
        )
    target.copy_(given)
