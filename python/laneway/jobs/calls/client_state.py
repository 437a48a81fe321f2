"""The state of a step in the client's own objects: before the step has a job, and as a copy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given, loss_scaling
from laneway.capture.capture import CapturedJobGraph
from laneway.errors import InvalidInput
from laneway.jobs.calls import draws
from laneway.jobs.calls.job_state import load_optimizer, parts_of, set_gradients


class ClientState:
    """The state of a step without a job. `model` and `optimizer` are one or a list of several each.
    `random` is the state of the job's own generator, `scaler` that of a GradScaler, until the job
    has them."""

    def __init__(self, model: Any, optimizer: Any, shares_random: bool) -> None:
        self._model, self._optimizer, self._shares_random = model, optimizer, shares_random
        self.random = torch.get_rng_state()
        self.scaler: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """The state in the form of TrainStep.state_dict()."""
        models = (
            {key: value.detach().clone() for key, value in model.state_dict().items()}
            for model in given.all_of(self._model)
        )
        optimizers = (optimizer.state_dict() for optimizer in given.all_of(self._optimizer))
        state = {
            "model": given.in_form_of(self._model, models),
            "optimizer": given.in_form_of(self._optimizer, optimizers),
            "random": draws.default_state() if self._shares_random else self.random.clone(),
        }
        return state | ({"scaler": self.scaler} if self.scaler else {})

    def write(self, state: dict[str, Any]) -> None:
        """Loads such a state."""
        models = parts_of(state, "model", self._model)
        optimizers = parts_of(state, "optimizer", self._optimizer)
        for model, part in zip(given.all_of(self._model), models):
            model.load_state_dict(part)
        for optimizer, part in zip(given.all_of(self._optimizer), optimizers):
            # Torch would keep the given tensors as the state, and write into them later.
            optimizer.load_state_dict(copy.deepcopy(part))
        self._write_rest(state)

    def take_over(self, state: dict[str, Any], captured: CapturedJobGraph) -> None:
        """Loads what the client's model and optimizer do not have of the last state of a job, which
        they follow, and whose first graph is `captured`."""
        self._write_rest(state)
        copy_gradients(state, self._model, captured)

    def _write_rest(self, state: dict[str, Any]) -> None:
        self.scaler = dict(state.get("scaler") or {})
        if state.get("random") is not None:
            self.random = state["random"].clone()


def copy_model(state: dict[str, Any], model: torch.nn.Module | Sequence[torch.nn.Module]) -> None:
    """Loads the models of a state into `model`. Raises InvalidInput when they do not fit."""
    try:
        for target, part in zip(given.all_of(model), parts_of(state, "model", model)):
            target.load_state_dict(part)
    except RuntimeError as error:
        raise InvalidInput(f"the job's state does not go into this model: {error}") from error


def copy_others(
    state: dict[str, Any],
    optimizer: Optimizer | Sequence[Optimizer] | None,
    ours: list[Optimizer],
    scaler: torch.amp.GradScaler | None,
) -> None:
    """Loads the states of the optimizers, which are those of `ours`, and of the scaler."""
    parts = [] if optimizer is None else parts_of(state, "optimizer", optimizer)
    for target, part, own in zip(given.all_of(optimizer), parts, ours):
        load_optimizer(target, part, own)
    if scaler is not None:
        loss_scaling.copy_to(scaler, state)


def copy_gradients(
    state: dict[str, Any],
    model: torch.nn.Module | Sequence[torch.nn.Module],
    captured: CapturedJobGraph | None,
) -> None:
    """Sets the gradients of the parameters whose gradients the job keeps."""
    if captured is None:
        return
    root = torch.nn.ModuleList(model) if given.is_list(model) else model
    set_gradients(root, captured.gradients, state.get("gradients", {}))
