"""A torch.amp.GradScaler that a step uses, as part of its graph.

The capture does not know how the closure reaches its scaler (a free variable, an attribute), so it
watches the class: the first scaler that the capturing thread uses has fakes during the capture, and
its own attributes again afterwards. Its scale and growth tracker are slots of the job's image;
torch makes them in the first scale(), the capture before it. In fused optimizers an operator
decides whether a step is skipped; other optimizers would need that decision on the host.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp.grad_scaler import GradScaler, OptState, _refresh_per_optimizer_state
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.value_table import ValueTable
from laneway.errors import CaptureError, InvalidInput
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Slot, SlotTable, SlotTensor
from laneway.native.process import SharedChange

# Key of GradScaler.state_dict() -> attribute that holds it.
_TENSORS = {"scale": "_scale", "_growth_tracker": "_growth_tracker"}
_NUMBERS = {
    "growth_factor": "_growth_factor",
    "backoff_factor": "_backoff_factor",
    "growth_interval": "_growth_interval",
}

_capturing = threading.local()  # .watch: the Watch of this thread's capture, if there is one


@dataclasses.dataclass(frozen=True)
class CapturedScaler:
    """The scaler of a captured step: the user's own object, which no iteration changes, and the
    numbers that the graph takes as constants, by their key in GradScaler.state_dict()."""

    scaler: GradScaler
    numbers: dict[str, Any]

    def attributes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The attributes of the user's scaler that hold those numbers, and their required
        values."""
        return self.scaler.__dict__, {_NUMBERS[key]: value for key, value in self.numbers.items()}

    def entries(self, slots: list[Slot]) -> list[tuple[int, SlotTensor, str]]:
        """Of each tensor of the state: its slot, its form there, and the scaler's attribute."""
        found = ((*_tensor(slots, key), attribute) for key, attribute in _TENSORS.items())
        return [(slot.index, tensor, attribute) for slot, tensor, attribute in found]

    def state_dict(self, slots: list[Slot], storages: list[torch.UntypedStorage]) -> dict[str, Any]:
        """The state in the layout of GradScaler.state_dict(), from copies of the slots' bytes."""
        found = {key: _tensor(slots, key)[1] for key in _TENSORS}
        values = {key: t.view(storages[_tensor(slots, key)[0].index]) for key, t in found.items()}
        return {
            "scale": values["scale"].item(),
            **self.numbers,
            "_growth_tracker": values["_growth_tracker"].item(),
        }

    def take(self, slots: list[Slot], storages: list[torch.UntypedStorage], given: dict) -> None:
        """Writes a state_dict into copies of the slots' bytes. Raises InvalidInput for one with
        other constants."""
        self._check(given)
        for key in _TENSORS:
            slot, tensor = _tensor(slots, key)
            tensor.view(storages[slot.index]).fill_(given[key])

    def begin_from(self, slots: list[Slot], given: dict) -> None:
        """Sets the image's initial bytes from a state_dict. Raises as take()."""
        self._check(given)
        for key in _TENSORS:
            slot, tensor = _tensor(slots, key)
            slot.initial = torch.full(tensor.sizes, given[key], dtype=tensor.dtype)

    def _check(self, given: dict) -> None:
        for key in (*_TENSORS, *_NUMBERS):
            if key not in given:
                raise InvalidInput(f"scaler/{key} is missing; pass GradScaler.state_dict()")
        for key, value in self.numbers.items():
            if given[key] != value:
                raise InvalidInput(
                    f"scaler/{key} is {given[key]}, the step was captured with {value}; make a new "
                    "step with a scaler of these numbers"
                )


def known(scaler: CapturedScaler | None) -> CapturedScaler:
    """The scaler of a step. Raises InvalidInput for a step that uses none."""
    if scaler is None:
        raise InvalidInput(
            "there is a scaler's state and the step uses no torch.amp.GradScaler: leave it out"
        )
    return scaler


def copy_to(scaler: GradScaler, state: dict[str, Any]) -> None:
    """Loads the "scaler" of a step's state_dict into `scaler`. Raises InvalidInput when there is
    none."""
    if not state.get("scaler"):
        raise InvalidInput(
            "the step has no scaler's state: it uses no torch.amp.GradScaler, or was not called yet"
        )
    scaler.load_state_dict(state["scaler"])


class ScalerRecorder(Protocol):
    """The part of a recorder that a Watch needs to make a scaler's state part of the image."""

    slots: SlotTable
    table: ValueTable
    fake_mode: FakeTensorMode

    def refusal(self, message: str, remedy: str) -> CaptureError:
        """The error, with the user's line, to raise for a step that no graph can hold."""


class Watch:
    """Finds the scaler that the step uses, and puts it on fakes. One per capture, used by its
    thread."""

    def __init__(self, recorder: ScalerRecorder) -> None:
        self._recorder = recorder
        self._scaler: GradScaler | None = None
        self._saved: dict[str, Any] = {}

    def meet(self, scaler: GradScaler) -> None:
        """Called before any attribute of `scaler` is read."""
        if scaler is self._scaler:
            return
        attributes = object.__getattribute__(scaler, "__dict__")
        if not attributes.get("_enabled"):
            return
        if self._scaler is not None:
            raise self._recorder.refusal(
                "the step uses two loss scalers", "scale all losses with one torch.amp.GradScaler"
            )
        if attributes["_per_optimizer_states"]:
            raise self._recorder.refusal(
                "the loss scaler stands between step() and update()",
                "call scaler.update() before the step is captured",
            )
        self._scaler, self._saved = scaler, dict(attributes)
        initial = (attributes["_init_scale"], torch.float32)
        attributes["_scale"] = self._fake("scale", attributes["_scale"], *initial)
        initial = (attributes["_init_growth_tracker"], torch.int32)
        tracker = attributes["_growth_tracker"]
        attributes["_growth_tracker"] = self._fake("_growth_tracker", tracker, *initial)
        attributes["_per_optimizer_states"] = collections.defaultdict(_refresh_per_optimizer_state)
        attributes["step"] = self._checked_step(scaler)

    def finish(self) -> CapturedScaler | None:
        """Called after the step: its scaler, if it used one. Raises CaptureError when no other
        iteration could follow, or when it would differ."""
        if self._scaler is None:
            return None
        attributes = object.__getattribute__(self._scaler, "__dict__")
        for state in attributes["_per_optimizer_states"].values():
            if state["stage"] is not OptState.READY:
                raise CaptureError(
                    "the step ends without scaler.update(): a second one would be refused by torch",
                    remedy="call scaler.update() behind scaler.step(optimizer)",
                )
        numbers = {key: attributes[name] for key, name in _NUMBERS.items()}
        for key, value in numbers.items():
            if value != self._saved[_NUMBERS[key]]:
                raise CaptureError(
                    f"the step changes the scaler's {key}",
                    remedy="set it before the step is captured",
                )
        return CapturedScaler(self._scaler, numbers)

    def restore(self) -> None:
        """Gives the user's scaler its own attributes back."""
        if self._scaler is not None:
            attributes = object.__getattribute__(self._scaler, "__dict__")
            attributes.clear()
            attributes.update(self._saved)

    def _fake(self, key: str, held: Any, initial: float, dtype: torch.dtype) -> torch.Tensor:
        recorder = self._recorder
        with _disable_current_modes():
            real = torch.full((), initial, dtype=dtype) if held is None else held
            slot = recorder.slots.add(real, ("scaler", key), SlotKind.optimizer_state)
            fake = recorder.fake_mode.from_tensor(real, static_shapes=True)
        recorder.table.add_persistent(fake, slot.index, slot.nbytes)
        return fake

    def _checked_step(self, scaler: GradScaler) -> Callable[..., Any]:
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            takes_scaler = "grad_scaler" in inspect.signature(type(optimizer).step).parameters
            if takes_scaler or not getattr(optimizer, "_step_supports_amp_scaling", False):
                raise self._recorder.refusal(
                    f"the loss scaler has to know on the host whether {type(optimizer).__name__} "
                    "may step, because this optimizer does not take the scaling itself",
                    "use SGD, Adam or AdamW with fused=True",
                )
            return type(scaler).step(scaler, optimizer, *args, **kwargs)

        return step


@contextlib.contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """Inside, `watch` gets every scaler that this thread uses. Afterwards the class is as
    before."""
    with _watching:
        around, _capturing.watch = getattr(_capturing, "watch", None), watch
        try:
            yield
        finally:
            _capturing.watch = around
            watch.restore()


def _watched_attribute(scaler: GradScaler, name: str) -> Any:
    watch = getattr(_capturing, "watch", None)
    if watch is not None and not name.startswith("__"):
        watch.meet(scaler)
    return object.__getattribute__(scaler, name)


def _watch_class() -> None:
    GradScaler.__getattribute__ = _watched_attribute


def _leave_class() -> None:
    if "__getattribute__" in vars(GradScaler):
        del GradScaler.__getattribute__


_watching = SharedChange(_watch_class, _leave_class)


def _tensor(slots: list[Slot], key: str) -> tuple[Slot, SlotTensor]:
    for slot in slots:
        for tensor in slot.tensors:
            if tensor.path == ("scaler", key):
                return slot, tensor
    raise InvalidInput(f"the job has no scaler/{key}: its step does not use it")
