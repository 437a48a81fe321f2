"""The step of a user who gave a loss function and no closure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.errors import CaptureError


def default_step(loss_fn: Callable[..., Any] | None) -> Callable[..., Any]:
    """A closure that clears gradients, computes the loss (of `loss_fn`, or of a model that returns
    its own), and calls backward() and optimizer.step(). Raises CaptureError for a loss that nothing
    can be trained by."""

    def step(model: Any, optimizer: Optimizer, *inputs: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        if loss_fn is None:
            result = _own_loss(model(*inputs, **kwargs))
        else:
            result = loss_fn(model(*inputs[:-1], **kwargs), inputs[-1])
        loss = result[0] if isinstance(result, (tuple, list)) else result
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise CaptureError(
                f"the loss is not one number but {shape}",
                remedy="reduce it with .mean() or .sum(), or pass closure=",
            )
        if not loss.requires_grad:
            raise CaptureError(
                "the loss does not depend on any parameter that requires a gradient",
                remedy="check requires_grad of the parameters and that the loss is not detached",
            )
        loss.backward()
        optimizer.step()
        return result

    return step


def _own_loss(result: Any) -> Any:
    """The result of a model that computes its loss itself, as a loss or (loss, aux…)."""
    if not isinstance(result, Mapping):
        return result
    loss = result.get("loss")
    if loss is None:
        raise CaptureError(
            f"the model's result, a {type(result).__name__} of {', '.join(map(str, result))}, has "
            "no loss",
            remedy="pass the labels to the model as well, or give train_step a loss_fn",
        )
    return loss
