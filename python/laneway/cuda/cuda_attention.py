"""Chooses the kernel of attention on CUDA, from CPU fakes.

It is aten::_scaled_dot_product_efficient_attention wherever its documented conditions hold: four
dimensions, one dtype of float16, bfloat16 and float32, head dimensions that its loads can be
aligned to, no dropout (it would draw from a generator of its own), and not all fused forms switched
off (torch.nn.attention.sdpa_kernel). Otherwise it is the mathematical form of attention, operator
by operator. Flash attention and cuDNN's attention, which eager execution prefers for the 16-bit
dtypes, give the same results except for rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
EFFICIENT = aten._scaled_dot_product_efficient_attention.default
EFFICIENT_BACKWARD = aten._scaled_dot_product_efficient_attention_backward.default

# dtype -> elements that a load of the kernel takes, on every device since compute capability 8.
_ALIGNMENT = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
_MASK_ALIGNMENT = 8  # elements between the rows of a mask


def attention(
    overload: torch._ops.OpOverload,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """scaled_dot_product_attention, as CUDA has it."""
    _check(query, key, value, attn_mask, is_causal)
    query, key, value = _recorded(query), _recorded(key), _recorded(value)
    attn_mask = _additive(None if attn_mask is None else _recorded(attn_mask), query)
    if enable_gqa:
        key, value = _one_head_each(query, key), _one_head_each(query, value)
    if dropout_p > 0.0 or not _fits_kernel(query, key, value, attn_mask):
        return aten._scaled_dot_product_attention_math.default(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
        )[0]
    if attn_mask is not None:
        attn_mask = _aligned(attn_mask).expand(*query.shape[:3], key.shape[2])
    needs_backward = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (query, key, value)
    )
    return EFFICIENT(query, key, value, attn_mask, needs_backward, 0.0, is_causal, scale=scale)[0]


def _recorded(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its layout in the graph: a tensor from outside of the step gets a slot, in
    which it is dense."""
    return tensor if isinstance(tensor, FakeTensor) else aten.alias.default(tensor)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
) -> None:
    """Raises for calls that scaled_dot_product_attention refuses on every device."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError("Expected query, key, and value to all be at least 2 dimensional")
    if attn_mask is None:
        return
    if attn_mask.dtype not in (torch.bool, query.dtype, torch.float32):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {attn_mask.dtype} and query.dtype: {query.dtype} instead."
        )
    if is_causal:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")


def _additive(mask: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    """The mask as numbers that are added to the scores; a boolean mask is True where a score takes
    part."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=query.dtype, device=query.device)
    return torch.where(mask, zero, float("-inf"))


def _one_head_each(query: torch.Tensor, grouped: torch.Tensor) -> torch.Tensor:
    """Keys or values that groups of heads share, repeated for each head of the query."""
    heads, groups = query.shape[-3], grouped.shape[-3]
    if groups == heads:
        return grouped
    if groups == 0 or heads % groups:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, got "
            f"{groups} and {heads}"
        )
    return grouped.repeat_interleave(heads // groups, -3)


def _fits_kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    allowed = torch.backends.cuda
    if not (
        allowed.mem_efficient_sdp_enabled()
        or allowed.flash_sdp_enabled()
        or allowed.cudnn_sdp_enabled()
    ):
        return False
    alignment = _ALIGNMENT.get(query.dtype)
    if alignment is None or any(tensor.dim() != 4 for tensor in (query, key, value)):
        return False
    if query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3]:
        return False
    if query.shape[2] == 0 or key.shape[2] == 0 or query.shape[3] != key.shape[3]:
        return False
    if not all(_loads(tensor, alignment) for tensor in (query, key, value)):
        return False
    if mask is None:
        return True
    wanted = (*query.shape[:3], key.shape[2])
    sizes = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    fits = len(sizes) == 4 and all(s in (1, full) for s, full in zip(sizes, wanted))
    return fits and mask.dtype == query.dtype and mask.stride(-1) == 1


def _loads(tensor: torch.Tensor, alignment: int) -> bool:
    """Whether the kernel can load the heads of the tensor with aligned loads."""
    size = tensor.shape[3]
    return (
        size > 0
        and size % alignment == 0
        and tensor.stride(3) == 1
        and tensor.storage_offset() % alignment == 0
        and all(tensor.stride(d) % alignment == 0 or tensor.shape[d] == 1 for d in range(3))
    )


def _aligned(mask: torch.Tensor) -> torch.Tensor:
    """The mask with rows that begin at the alignment of the kernel's loads."""
    if all(mask.stride(d) % _MASK_ALIGNMENT == 0 for d in range(mask.dim() - 1)):
        return mask
    length = mask.shape[-1]
    padding = _MASK_ALIGNMENT - length % _MASK_ALIGNMENT
    return torch.nn.functional.pad(mask, (0, padding))[..., :length]


def arguments_in_graph(overload: torch._ops.OpOverload, args: tuple) -> tuple:
    """The call's arguments in the graph. Seed and offset of a random number generator stand for the
    masks of a dropout. There is no dropout, so their contents mean nothing, and their device
    depends on how the kernel is run."""
    return (*args[:7], None, None, *args[9:]) if overload is EFFICIENT_BACKWARD else args


def results_in_graph(overload: torch._ops.OpOverload, results: Any) -> Any:
    """The same for the call's results."""
    return (*results[:2], None, None) if overload is EFFICIENT else results
