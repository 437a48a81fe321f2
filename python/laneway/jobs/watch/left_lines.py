"""Lines of an eager loop that stand around a step: those that were left in, where they change
nothing, and those that read the model, and what for.

The gradients of a step stay in its job: outside of it an optimizer finds none to step with, and
clip_grad_norm_ none to clip. Each says so once.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import torch
from torch.nn.utils import clip_grad
from torch.optim import Optimizer

from laneway.capture.hook_marks import without_effect
from laneway.capture.user_lines import is_internal_file
from laneway.jobs.watch.watched import held

# Functions that walk over parameters without a look at their values.
_ONLY_GRADIENTS = (
    clip_grad.clip_grad_norm_,
    clip_grad.clip_grad_value_,
)
_NO_VALUES = (
    torch.nn.Module.zero_grad,
    torch.nn.Module.requires_grad_,
    Optimizer.zero_grad,
    Optimizer.state_dict,
    Optimizer.load_state_dict,
    Optimizer.add_param_group,
)
# How many callers are looked at: what lies between such a function and a container.
_DEPTH = 12


def _codes(functions: tuple[Any, ...]) -> dict[Any, str]:
    return {inspect.unwrap(f).__code__: f.__name__ for f in functions}


_CLIPS = _codes(_ONLY_GRADIENTS)
_WALKS = _CLIPS | _codes(_NO_VALUES)
_CALL = torch.nn.Module._call_impl.__code__


class LeftLines:
    """What the loop around job `name`, which has these optimizers, still calls."""

    def __init__(self, name: str, optimizers: list[Optimizer]) -> None:
        self._name = name
        self._optimizers = optimizers
        self._told: set[str] = set()
        hook = _BeforeStep(self)
        self._hooks = [optimizer.register_step_pre_hook(hook) for optimizer in optimizers]

    def remove(self) -> None:
        """Looks no more."""
        for hook in self._hooks:
            hook.remove()

    def reader(self) -> str | None:
        """For whom the caller's caller reads a container of the model: "gradients", a function that
        looks at no value (one that would clip gradients is told of); "evaluation", a module's
        forward pass in evaluation mode; None: somebody else."""
        frame = sys._getframe(2)
        for _ in range(_DEPTH):
            if frame is None:
                return None
            code = frame.f_code
            if code in _WALKS:
                if code in _CLIPS:
                    self.tell(_CLIPS[code])
                return "gradients"
            if code is _CALL:
                return None if frame.f_locals["self"].training else "evaluation"
            frame = frame.f_back
        return None

    def tell(self, what: str) -> None:
        """Warns once that the function `what` was called, unless there are gradients."""
        if what in self._told or self._has_gradients():
            return
        self._told.add(what)
        warnings.warn(
            f"{what}() outside of the step changes nothing: the gradients of job {self._name!r} "
            "stay in the service; let the step do it, and remove the line here",
            stacklevel=_users_level(),
        )

    def _has_gradients(self) -> bool:
        return any(
            parameter.grad is not None
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for parameter in held(group["params"])
        )


def _users_level() -> int:
    """The stacklevel, for a warning of the caller, of the line that is neither torch's nor ours."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_internal_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


@without_effect
class _BeforeStep:
    """A hook on step() of the client's optimizer."""

    def __init__(self, lines: LeftLines) -> None:
        self._lines = lines

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._lines.tell("optimizer.step")
