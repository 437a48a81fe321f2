"""Finds changes that a step makes in Python and that a graph cannot repeat, while the step runs on
fakes.

The step's Python runs at capture only. A step of an optimizer that is not on fakes, or a new value
of a hyperparameter, would happen once and never again, and every later iteration would silently
differ from eager execution. Such changes are refused and undone. For all other state of Python see
effects.py.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from laneway.capture.hook_marks import without_effect
from laneway.errors import CaptureError
from laneway.native.process import SharedChange

Modes = list[tuple[torch.nn.Module, bool]]


_capturing = threading.local()  # .own: the optimizers of this thread's capture; .fakes
_zero_grad = Optimizer.zero_grad


@functools.wraps(_zero_grad)
def _told_zero_grad(optimizer: Optimizer, set_to_none: bool = True) -> None:
    own = getattr(_capturing, "own", None)
    if own is None or any(optimizer.__dict__ is each.__dict__ for each in own):
        _zero_grad(optimizer, set_to_none)
        return
    for parameter in [p for group in optimizer.param_groups for p in group["params"]]:
        _zero(optimizer, parameter, set_to_none)


def _zero(optimizer: Optimizer, parameter: torch.Tensor, set_to_none: bool) -> None:
    """What another optimizer than the step's does to the gradient of one of its parameters, which
    may be the job's."""
    of_job = _capturing.fakes.get(id(parameter), parameter)
    gradient = of_job.grad
    if gradient is None:
        return
    if of_job is parameter and not isinstance(parameter, FakeTensor):
        raise _of_another("zero_grad()", optimizer)
    if set_to_none:
        of_job.grad = None
    else:
        gradient.detach_() if gradient.grad_fn is not None else gradient.requires_grad_(False)
        gradient.zero_()


def _of_another(does: str, optimizer: Optimizer) -> CaptureError:
    return CaptureError(
        f"the step calls {does} of an optimizer ({type(optimizer).__name__}) that is not the "
        "step's own, which would happen at capture only",
        remedy="give all models and optimizers to the step: "
        "laneway.step([a, b], [optimizer_a, optimizer_b])",
    )


_serving = SharedChange(
    lambda: setattr(Optimizer, "zero_grad", _told_zero_grad),
    lambda: setattr(Optimizer, "zero_grad", _zero_grad),
)


@contextlib.contextmanager
def own_optimizers(copies: list[Optimizer], fakes: dict[int, torch.Tensor]) -> Iterator[None]:
    """Inside, this thread may call step() of `copies` alone; others raise CaptureError. What others
    do to gradients of the job's parameters they do to `fakes`, by the ids of the parameters."""
    thread = threading.get_ident()

    @without_effect  # on the steps of other threads
    def check(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == thread and not any(optimizer is own for own in copies):
            raise _of_another("step()", optimizer)

    handle = register_optimizer_step_pre_hook(check)
    around = getattr(_capturing, "own", None), getattr(_capturing, "fakes", {})
    try:
        with _serving:
            _capturing.own, _capturing.fakes = copies, fakes
            yield
    finally:
        _capturing.own, _capturing.fakes = around
        handle.remove()


@contextlib.contextmanager
def same_hyperparameters(optimizers: list[Optimizer]) -> Iterator[None]:
    """Raises CaptureError, and restores the entry, when the body changes an entry of a parameter
    group."""
    before = [(o, o.param_groups, [dict(g) for g in o.param_groups]) for o in optimizers]
    yield
    changed = ""
    for optimizer, groups, saved in before:
        current = optimizer.param_groups
        if len(current) != len(saved) or current is not groups:
            changed = "its groups"
        for group, old in zip(current, saved):
            keys = [k for k in old if k != "params" and not _same(group.get(k), old[k])]
            changed = changed or (repr(keys[0]) if keys else "")
            group.update({key: old[key] for key in keys})
        del current[len(saved) :]
    if changed:
        raise CaptureError(
            f"the step changes {changed} of the optimizer's parameter groups, which would happen "
            "at capture only",
            remedy="change it between the steps; call scheduler.step() after the step, not in it",
        )


def modes(modules: list[torch.nn.Module]) -> Modes:
    """The training flag of each module."""
    every = {id(m): m for root in modules for m in root.modules()}.values()
    return [(module, module.training) for module in every]


def changed_modes(before: Modes) -> Modes:
    """The modules with another flag now, with that flag."""
    return [(m, m.training) for m, training in before if m.training != training]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, (torch.Tensor, torch.SymFloat)):
        return False
    try:
        return bool(a == b)
    except Exception:  # values that cannot be compared count as different
        return False
