"""Gradients that outlive a step: micro-batches that are accumulated over several calls.

A gradient that the next call reads or adds to is state of the job, as a parameter is: it has a slot
in the image. "No gradient" is the slot filled with negative zero, because negative zero plus x is x
for every x, the sign of zero included: accumulating into it gives the bits that eager gives when it
stores the first gradient.

To find the parameters that need one, the step runs once with a gradient for each (kept=None below):
they are those that backward accumulates into. All others have none, so that an optimizer skips them
as in eager execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from laneway.capture.recorder import Recorder, mark_stale
from laneway.errors import CaptureError
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Path, Slot


class NewGradient(CaptureError):
    """A parameter gets a gradient that has no place in the job's image."""


def gradient_path(parameter: Path) -> Path:
    """The path of the gradient of `parameter`."""
    return ("gradient", *parameter)


def every_parameter(modules: Iterable[tuple[str, Any]]) -> frozenset[Path]:
    """The path of each parameter of those that are modules."""
    return frozenset(
        (prefix, name)
        for prefix, module in modules
        if isinstance(module, torch.nn.Module)
        for name, _ in module.named_parameters()
    )


def begun(kept: Iterable[Path], slots: list[Slot]) -> set[Path]:
    """The parameters of the kept gradients that the client had before the first call."""
    created = {t.path for slot in slots if slot.created for t in slot.tensors}
    return {path for path in kept if gradient_path(path) not in created}


def without_gradient(parameter: torch.Tensor) -> torch.Tensor:
    """What a slot holds for a parameter that has no gradient."""
    zeros = torch.zeros_like(parameter, memory_format=torch.preserve_format)
    return zeros.detach().neg_()


class GradientCame:
    """A hook on a fake that says so. It must not hold the fake: the collector does not see through
    hooks."""

    def __init__(self, note: Callable[[Any], None], what: Any) -> None:
        self._note, self._what = note, what

    def __call__(self, _: torch.Tensor) -> None:
        self._note(self._what)


class Gradients:
    """The gradients of the fake parameters. `kept` are the parameters whose gradients are state;
    None: all, to find these parameters. One per capture."""

    def __init__(self, recorder: Recorder, kept: frozenset[Path] | None = frozenset()) -> None:
        self._recorder = recorder
        self._kept = kept
        self._fakes: dict[Path, tuple[torch.Tensor, torch.Tensor]] = {}  # parameter, its gradient
        self._others: dict[Path, torch.Tensor] = {}  # parameters without a gradient
        self.accumulated: set[Path] = set()

    def attach(self, path: Path, parameter: torch.Tensor, fake: torch.Tensor) -> None:
        """Gives `fake`, which stands for `parameter`, its gradient at the start of the step."""
        if self._kept is None or path in self._kept:
            self._attach_kept(path, parameter, fake)
        elif not self._kept or parameter.grad is not None:
            with self._recorder.fake_mode:
                fake.grad = torch.empty_like(fake, requires_grad=False)
            mark_stale(fake.grad)
        if path not in self._fakes:
            self._others[path] = fake
        if self._kept is None:
            fake.register_post_accumulate_grad_hook(GradientCame(self.accumulated.add, path))

    def left(self) -> list[torch.Tensor]:
        """The fake parameters for which the step made a gradient and left it."""
        return [fake for fake in self._others.values() if self._is_new(fake)]

    def write_back(self) -> dict[Path, bool]:
        """Writes the gradient that the step left into each kept gradient's slot: a copy where it is
        another tensor, negative zeros where it is None; nothing is to do where it was accumulated
        in place. Returns for each whether it is not None after the step."""
        if self._kept:
            for path, fake in self._others.items():
                if self._is_new(fake):
                    raise NewGradient(
                        f"{'/'.join(map(str, path))} gets a gradient in this call and got none in "
                        "the job's first",
                        remedy="make a new step, whose first call uses all that later ones do",
                    )
        present: dict[Path, bool] = {}
        with torch.no_grad(), self._recorder.fake_mode, self._recorder:
            for path, (fake, kept) in self._fakes.items():
                present[path] = fake.grad is not None
                if fake.grad is None:
                    kept.zero_()
                    kept.neg_()
                elif fake.grad is not kept:
                    kept.copy_(fake.grad)
        return present

    def kept_paths(self) -> set[Path]:
        """The parameters whose gradients are state."""
        return set(self._fakes)

    def storages(self) -> frozenset[int]:
        """The kept gradients' storages."""
        table = self._recorder.table
        values = [table.find(kept) for _, kept in self._fakes.values()]
        return frozenset(table.values[value].storage for value in values)

    def _attach_kept(self, path: Path, parameter: torch.Tensor, fake: torch.Tensor) -> None:
        recorder = self._recorder
        real = parameter.grad
        created = real is None
        if real is None:
            real = without_gradient(parameter)
        slot = recorder.slots.add(real.detach(), gradient_path(path), SlotKind.gradient, created)
        layout = next(t for t in slot.tensors if t.path == gradient_path(path))
        with recorder.fake_mode:
            kept = torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype)
        recorder.table.add_persistent(kept, slot.index, slot.nbytes)
        fake.grad = kept
        self._fakes[path] = (fake, kept)

    def _is_new(self, fake: torch.Tensor) -> bool:
        return fake.grad is not None and self._recorder.table.find(fake.grad) is not None
