"""StepState: the state of a training step, read, loaded and copied. TrainStep is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given
from laneway.capture.capture import CapturedJobGraph
from laneway.graph.slots import Path
from laneway.jobs.calls import client_state, draws
from laneway.jobs.calls.client_state import ClientState
from laneway.jobs.calls.job import Job
from laneway.jobs.calls.job_state import JobState, parts_of
from laneway.jobs.forms.variants import Variants
from laneway.jobs.mirrors.mirror import Mirror
from laneway.jobs.step_capture import StepCapture
from laneway.jobs.watch.stale_weights import StaleWeights
from laneway.jobs.watch.watched import quietly
from laneway.native.process import ProcessLock


class StepState:
    """What a step needs for it."""

    model: torch.nn.Module | Sequence[torch.nn.Module]
    optimizer: Optimizer | Sequence[Optimizer] | None
    optimizers: Sequence[Optimizer]
    captured: CapturedJobGraph | None
    job: Job | None
    mirror: Mirror | None
    _before: ClientState
    _captures: StepCapture
    _gradients: set[Path]
    _lock: ProcessLock
    _shares_random: bool
    _stepped: list[bool]
    _variants: Variants
    _watches: list[StaleWeights]

    def ensure_job(self) -> tuple[CapturedJobGraph, Job]:
        """The capture and the job."""
        raise NotImplementedError

    def _check_open(self) -> None:
        """Raises ServiceUnavailable after close()."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The state after all iterations submitted before: {"model": …, "optimizer": …} in torch's
        own layouts, which plain torch can load, and "random", the state of the generator that the
        step draws from (torch's default one, or the job's). Of a step with a list of models or
        optimizers the entry is a list in that order. "gradients", by parameter, is an entry where
        the job keeps gradients between calls, "scaler" where the step uses a GradScaler."""
        if self.mirror is not None:
            self.mirror.give()
        with self._lock, quietly():
            self._check_open()
            if self.job is None or self.captured is None:
                return self._before.read()
            if self.mirror is not None:
                self._stepped = self.mirror.stepped
                if not self.optimizers or self._captures.keeps_all:
                    self._gradients = self.mirror.present
            return self._state().read(self._stepped, self._gradients)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state that state_dict() or plain torch made, after all iterations submitted
        before. The entry "random", where there is one, becomes the state of the generator that the
        step draws from: torch's default one, or the job's. Raises InvalidInput, which names the
        entry that does not fit."""
        random = state.get("random")
        with self._lock, quietly():
            self._check_open()
            optimizers = parts_of(state, "optimizer", self.optimizer)
            draws.check_state(random)
            if random is not None and self._shares_random:
                draws.set_default_state(random)
            if self.job is None or self.captured is None:
                self._before.write(state)
                return
            self._gradients = self._state().write(state)
            self._stepped = [bool(part["state"]) for part in optimizers]
            if self.mirror is not None:
                self.mirror.overwritten(self._stepped)

    def sync_to(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: Optimizer | Sequence[Optimizer] | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Copies the job's state into `model` (and `optimizer`, and `scaler`): lists of as many as
        the step has, where it has lists."""
        own = self.mirror is not None and given.are_same(model, self.model)
        own_optimizer = given.are_same(optimizer, self.optimizer)
        if own:
            self.mirror.refresh(state=own_optimizer)
            keeps = self.captured is not None and self.captured.gradients
            if (optimizer is None or own_optimizer) and scaler is None and not keeps:
                return
        state = self.state_dict()
        if not own:
            client_state.copy_model(state, model)
        for watch in self._watches:
            watch.current = watch.current or given.are_same(model, self.model)
        others = None if own and own_optimizer else optimizer
        client_state.copy_others(state, others, self.optimizers, scaler)
        client_state.copy_gradients(state, model, self.captured)

    def _state(self) -> JobState:
        captured, job = self.ensure_job()
        last = self._variants.current
        # A form that does not scale its loss leaves the scaler's state as it is.
        scaler = (last.captured.scaler if last is not None else None) or captured.scaler
        return JobState(captured, job, self.model, self.optimizer, scaler, self._shares_random)
