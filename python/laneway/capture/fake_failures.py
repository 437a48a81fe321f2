"""Distinguishes errors that a capture causes, because its tensors have no data, from errors of the
user's code. Eager execution raises the latter too, and the capture passes them on unchanged."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.user_lines import line_of
from laneway.errors import CaptureError

_NOT_ALLOCATED = "data is not allocated yet"


def data_wanted(error: Exception) -> CaptureError:
    """The error to raise for `error`, of code that reads the data of a tensor."""
    if _NOT_ALLOCATED in str(error):
        return CaptureError(
            "a function of torch reads a tensor's data to decide what it computes, and a graph is "
            f"captured without data ({str(error).splitlines()[0]})",
            source=line_of(error),
            remedy="give it Python numbers there if it takes them (tensor_split: a list of "
            "indices), or compute it outside the step",
        )
    return CaptureError(
        f"the step reads a tensor's data in Python: {error}",
        source=line_of(error),
        remedy="use torch operators instead of numpy() and the like, or compute it outside the "
        "step",
    )


def check_real(func: Any, args: tuple, kwargs: dict[str, Any], source: str, error: Any) -> None:
    """After `error` of an operator on fakes: raises CaptureError if the real operator takes such
    arguments. It runs on zeros of their layouts; nothing of the user's runs again."""
    try:
        with (
            _disable_current_modes(),
            torch.no_grad(),
            torch._C._AutoDispatchBelowADInplaceOrView(),
        ):
            func(*map(_zeros, args), **{name: _zeros(value) for name, value in kwargs.items()})
    except Exception:
        return  # the user's own error, in torch's words
    name = func._schema.name + f".{func._schema.overload_name}".rstrip(".")
    raise CaptureError(
        "torch has no right form of this operator for tensors without data, which a capture needs: "
        f"{type(error).__name__}: {error}",
        operator=name,
        source=source or None,
        remedy="write it with other operators (of a view: the plain one on x.contiguous()), or "
        "compute it outside the step",
    ) from error


def _zeros(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).zero_()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_zeros, value))
    return value
