"""The same tensors in other places of memory.

A layout is a function of a tensor that gives one of the same shape and dtype, laid out otherwise,
or None where the layout says nothing about such a tensor. The values are the same but for
`expanded`, which repeats the first element of a dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _transposed(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.dim() < 2 or min(tensor.shape[-2:]) < 2:
        return None
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.dim() not in _CHANNELS_LAST:
        return None
    return tensor.contiguous(memory_format=_CHANNELS_LAST[tensor.dim()])


def _expanded(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.dim() < 1 or tensor.numel() == 0 or not _is_inexact(tensor):
        return None
    dense = tensor.contiguous()
    return dense.as_strided(dense.shape, (0, *dense.stride()[1:]))


def _sliced(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.dim() < 1 or tensor.numel() == 0:
        return None
    last = tensor.shape[-1]
    whole = tensor.new_zeros((*tensor.shape[:-1], 2 * last + 3))
    view = whole[..., 3 : 3 + 2 * last : 2]
    view.copy_(tensor)
    return view


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "contiguous": lambda tensor: tensor,
    "transposed": _transposed,
    "channels_last": _channels_last,
    "expanded": _expanded,
    "sliced": _sliced,
}


def laid_out(tree: Any, layout: str) -> Any:
    """`tree` with its dense tensors in the layout, as new leaves that share no memory with the old
    ones; None when no tensor of it allows that layout. A tensor that stands there twice does
    so afterwards."""
    make = LAYOUTS[layout]
    made: dict[int, torch.Tensor] = {}
    changed = layout == "contiguous"

    def one(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        if id(value) not in made:
            with torch.no_grad():
                plain = value.detach()
                new = None if plain.is_conj() or plain.is_neg() else make(plain)
            changed = changed or new is not None
            new = (plain if new is None else new).detach()
            made[id(value)] = new.requires_grad_(value.requires_grad)
        return made[id(value)]

    result = pytree.tree_map(one, tree)
    return result if changed else None
