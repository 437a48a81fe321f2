"""The gradients that backward() leaves in a step's arguments, as eager leaves them in `.grad`.

A job works on copies of its inputs. Of an argument that is a leaf the gradient is one more output
of the graph, and a call adds it to the caller's tensor. Where backward() would reach what computed
the argument, or a parameter by a second way, no output can stand for that: they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from laneway.capture.kept_gradients import GradientCame
from laneway.capture.recorder import Recorder, mark_stale
from laneway.errors import CaptureError


class InputGradients:
    """Of one run of a step; made before it."""

    def __init__(self, recorder: Recorder, arguments: Any, fakes: Any) -> None:
        tensors, theirs = (
            [leaf for leaf in pytree.tree_leaves(of) if isinstance(leaf, torch.Tensor)]
            for of in (arguments, fakes)
        )
        self._recorder = recorder
        self._pairs = list(zip(tensors, theirs))
        self._came: list[int] = []  # the positions of those that got a gradient, each time
        for position, (real, fake) in enumerate(self._pairs):
            if not fake.requires_grad:
                continue
            if real.is_leaf and real.grad is not None:
                with recorder.fake_mode:
                    fake.grad = torch.empty_like(fake, requires_grad=False)
                mark_stale(fake.grad, _refusal(position, "that is there already"))
            fake.register_post_accumulate_grad_hook(GradientCame(self._came.append, position))

    def left(self, modules: Iterable[tuple[str, torch.nn.Module]]) -> dict[int, int]:
        """By the position among the tensors of the arguments, the value that is to be added to the
        argument's `.grad`. Raises CaptureError for a gradient that cannot leave the step."""
        found: dict[int, int] = {}
        parameters = _by_storage(modules)
        for position, (real, fake) in enumerate(self._pairs):
            if position not in self._came or fake.grad is None:
                continue
            name = parameters.get(real.untyped_storage()._cdata)
            self._check(position, real, name)
            found[position] = self._recorder.value_of(fake.grad)
        return found

    def _check(self, position: int, real: torch.Tensor, name: str | None) -> None:
        if name is not None:
            raise CaptureError(
                f"input {position} lies in the memory of {name!r}, a tensor of the model: its "
                "gradient reaches that parameter by a second way, and a job works on a copy",
                remedy="reach it through the model inside the step, or pass it with .detach()",
            )
        if not real.is_leaf:
            raise CaptureError(
                f"input {position} requires a gradient, which would go on to what computed it "
                "outside of the step",
                remedy="give the step that module and its optimizer too, laneway.step([a, b], "
                "[optimizer_a, optimizer_b]), and call it inside; or pass the input with .detach()",
            )
        count = self._came.count(position)
        if count > 1 or real.grad is not None:
            more = "more than once" if count > 1 else "that is there already"
            raise _refusal(position, more)


def _refusal(position: int, how: str) -> CaptureError:
    return CaptureError(
        f"the step adds to the gradient of input {position} {how}",
        remedy="set its .grad to None before each call, and call backward() once; or make "
        "it a leaf of the step's own there: x = x.detach().requires_grad_()",
    )


class GradientOf:
    """The gradient of a caller's tensor, as something to write to."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def copy_(self, value: torch.Tensor) -> None:
        """Adds `value` to the gradient."""
        tensor = self._tensor
        if tensor.grad is not None:
            tensor.grad += value
        else:
            tensor.grad = torch.empty_like(tensor, requires_grad=False).copy_(value)


def _by_storage(modules: Iterable[tuple[str, torch.nn.Module]]) -> dict[int, str]:
    return {
        parameter.untyped_storage()._cdata: name
        for _, module in modules
        for name, parameter in module.named_parameters()
        if not torch.nn.parameter.is_lazy(parameter)
    }
