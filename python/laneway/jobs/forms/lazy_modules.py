"""Lazy modules (such as torch.nn.LazyLinear) before their first call: they get the sizes, the
first values and the random numbers that eager's first call would give them.

A trial capture of the model stops at the first lazy module that it reaches. That module initialises
itself from the arguments of its call. Trial captures are repeated until all modules have sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _get_current_dispatch_mode

from laneway.errors import CaptureError

REMEDY = "call the model once with a batch, under torch.no_grad(), before the step is captured"


class _Reached(CaptureError):
    """The capture has reached a lazy module. `drew`: it had recorded random numbers before."""

    def __init__(self, module: Any, args: tuple, kwargs: dict[str, Any], drew: bool) -> None:
        super().__init__(f"{type(module).__name__} has no sizes yet", remedy=REMEDY)
        self.module, self.args_given, self.kwargs_given, self.drew = module, args, kwargs, drew


def has_lazy(model: torch.nn.Module) -> bool:
    """Whether a parameter or buffer of the model has no sizes yet."""
    return any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers()))


def initialise(
    model: torch.nn.Module, capture: Callable[[], object], random_state: torch.Tensor
) -> torch.Tensor:
    """Gives all lazy modules of `model` their sizes, in the order in which `capture` reaches them,
    with random numbers from `random_state`; returns the random state afterwards. Raises
    CaptureError when eager's first call would draw other numbers, or reaches not all modules."""
    while has_lazy(model):
        try:
            with _stopping_at_lazy(model):
                capture()
        except _Reached as reached:
            if reached.drew:
                raise CaptureError(
                    f"{type(reached.module).__name__} has no sizes yet, and the model draws random "
                    "numbers before it would draw its first values",
                    remedy=REMEDY,
                ) from None
            random_state = _initialised(reached, random_state)
        else:
            tensors = (*model.named_parameters(), *model.named_buffers())
            name = next(name for name, tensor in tensors if is_lazy(tensor))
            raise CaptureError(
                f"{name!r} of the model has no sizes yet, and this call does not give it any",
                remedy=REMEDY,
            )
    return random_state


def _initialised(reached: _Reached, random_state: torch.Tensor) -> torch.Tensor:
    module = reached.module
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.set_rng_state(random_state)
        module._infer_parameters(module, reached.args_given, reached.kwargs_given)
        return torch.get_rng_state()


@contextlib.contextmanager
def _stopping_at_lazy(model: torch.nn.Module) -> Iterator[None]:
    lazy = [module for module in model.modules() if _is_lazy(module)]
    try:
        for module in lazy:
            module.__dict__["initialize_parameters"] = _stop_at(module)
        yield
    finally:
        for module in lazy:
            del module.__dict__["initialize_parameters"]


def _stop_at(module: torch.nn.Module) -> Callable[..., None]:
    def stop(*args: Any, **kwargs: Any) -> None:
        recorder = _get_current_dispatch_mode()
        raise _Reached(module, args, kwargs, bool(getattr(recorder, "drawing", None)))

    return stop


def _is_lazy(module: torch.nn.Module) -> bool:
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()
