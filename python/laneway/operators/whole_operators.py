"""Composite operators that torch decomposes in another way for the fake tensors of a capture.

Some of ATen's composite operators test whether a tensor is of a subclass, as fakes are, and then
decompose in a way that needs no data: singular values without vectors are computed with them, the
gradient of cumprod by another formula. Others read data, to check an argument. Each of them is
recorded as one operator, and the job decomposes it over real tensors, as eager execution does.
Where a gradient is needed, autograd must see the parts; there both decompositions are the same, or
the part that needs data refuses the capture.

Autocast casts the parts of some of them, and those of fused layers, inside the operator. A job runs
an operator without autocast, so these are refused under it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.utils import _pytree as pytree

from laneway.errors import CaptureError
from laneway.operators.prod_gradient import prod
from laneway.operators.thread_key import Form, ThreadKey

_NAMES = (
    "linalg_svdvals",
    "linalg_eigvalsh",
    "cumprod_backward",
    "quantile",
    "quantile.scalar",
    "nanquantile",
    "nanquantile.scalar",
    "cov",
    "corrcoef",
    "istft",
)
OPERATORS = frozenset(f"aten::{name}" for name in _NAMES)
# Their parts are what autocast casts, with what computes the same in parts that a capture sees.
_CAST_INSIDE = {
    "cov": "compute it under torch.autocast('cpu', enabled=False)",
    "corrcoef": "compute it under torch.autocast('cpu', enabled=False)",
    "_transformer_encoder_layer_fwd": "call torch.backends.mha.set_fastpath_enabled(False)",
    "_native_multi_head_attention": "call torch.backends.mha.set_fastpath_enabled(False)",
}


def kept_whole() -> contextlib.AbstractContextManager[None]:
    """Inside, this thread's calls of these operators reach the recorder as one operator."""
    return _key.included()


def _whole(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    if torch.is_grad_enabled() and any(
        isinstance(leaf, torch.Tensor) and leaf.requires_grad
        for leaf in pytree.tree_leaves((args, kwargs))
    ):
        return overload(*args, **kwargs)
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return overload(*args, **kwargs)


def _plain(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    return overload(*args, **kwargs)


def _without_autocast(name: str, form: Form) -> Form:
    def checked(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("cpu"):
            raise CaptureError(
                "autocast casts what this operator computes inside, which no graph holds",
                operator=f"aten::{name}",
                remedy=_CAST_INSIDE[name],
            )
        return form(overload, *args, **kwargs)

    return checked


def _split(
    _: torch._ops.OpOverload, tensor: torch.Tensor, places: torch.Tensor, dim: int = 0
) -> list[torch.Tensor]:
    """tensor_split by a tensor of indices: its numbers are read as the step's own code would read
    them."""
    if places.dim() == 0:
        return torch.tensor_split(tensor, int(places.item()), dim)
    numbers = [int(places[i].item()) for i in range(places.shape[0])]
    return torch.tensor_split(tensor, numbers, dim)


def _forms() -> dict[str, Form]:
    whole = dict.fromkeys(_NAMES, _whole)
    return {
        **whole,
        **{name: _without_autocast(name, whole.get(name, _plain)) for name in _CAST_INSIDE},
        "prod": prod,
        "prod.dim_int": prod,
        "tensor_split.tensor_indices_or_sections": _split,
    }


_key = ThreadKey("AutocastHPU", _forms)
