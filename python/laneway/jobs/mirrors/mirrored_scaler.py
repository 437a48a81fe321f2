"""ScalerMirror: the client's GradScaler, as its scale and growth follow the slots of a job.

Whoever asks the scaler for its state, or sets it, does so by a method. Each of these brings the
scaler up to date first; a scale that was set since goes to the job before its next iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from laneway.capture.loss_scaling import CapturedScaler
from laneway.graph.slots import Slot
from laneway.jobs.calls import slot_bytes
from laneway.jobs.calls.job import Job
from laneway.jobs.watch.watched import Watcher, tell

_METHODS = (
    "get_scale",
    "_get_scale_async",
    "_get_growth_tracker",
    "scale",
    "unscale_",
    "step",
    "update",
    "state_dict",
    "load_state_dict",
)


class ScalerMirror:
    """Not thread-safe: its owner serialises the calls, inside quietly(). `watcher` is told of calls
    of the scaler's methods."""

    def __init__(self, captured: CapturedScaler, slots: list[Slot], watcher: Watcher) -> None:
        self.scaler = captured.scaler
        self.stale = True  # whether the job may have another state than the scaler
        self._slots = slots
        self._entries = captured.entries(slots)
        self._seen: list[Any] = []
        for name in _METHODS:
            self.scaler.__dict__[name] = _Told(self.scaler, name, watcher)

    def refresh(self, job: Job) -> None:
        """Brings the scaler up to date."""
        if not self.stale:
            return
        self.stale = False
        placed: dict[int, list[slot_bytes.Placed]] = {}
        for slot, described, attribute in self._entries:
            tensor = torch.empty(described.sizes, dtype=described.dtype)
            placed.setdefault(slot, []).append((described, tensor))
            self.scaler.__dict__[attribute] = tensor
        slot_bytes.read_into(job, placed, self._slots)
        self._seen = self._look()

    def push(self, job: Job) -> None:
        """Gives the job what was set since refresh()."""
        if self.stale or self._look() == self._seen:
            return
        placed: dict[int, list[slot_bytes.Placed]] = {}
        for slot, described, attribute in self._entries:
            tensor = self.scaler.__dict__[attribute].detach()
            placed.setdefault(slot, []).append((described, tensor))
        names = {slot: f"the scaler's {attribute}" for slot, _, attribute in self._entries}
        slot_bytes.write_from(job, placed, self._slots, names)
        self._seen = self._look()

    def detach(self) -> None:
        """Gives the scaler its own methods back."""
        for name in _METHODS:
            self.scaler.__dict__.pop(name, None)

    def _look(self) -> list[Any]:
        tensors = [self.scaler.__dict__[attribute] for _, _, attribute in self._entries]
        return [(id(tensor), tensor._version) for tensor in tensors]


class _Told:
    """A method of the scaler that tells of its call first. Copies of the scaler have the plain
    method."""

    def __init__(self, scaler: Any, name: str, watcher: Watcher) -> None:
        self._scaler, self._name, self._watcher = scaler, name, watcher

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tell([self._watcher])
        return getattr(type(self._scaler), self._name)(self._scaler, *args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple]:
        raise TypeError("a GradScaler of a step is copied by its state_dict()")
