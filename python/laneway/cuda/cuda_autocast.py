"""CUDA's autocast over the CPU fakes of a capture.

torch.autocast("cuda") sets a state of the thread; the casts are made by kernels that the dispatcher
finds for CUDA tensors only. So under the key of cuda_forms.py the same operators have kernels that
follow the same four rules: run in the lower precision, run in float32, ask for a float32 result,
run in the widest dtype of the arguments. The rule of each operator is from torch's list
(ATen/autocast_mode.h); a test compares it with the kernels that this build of torch has for CUDA.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from laneway.errors import CaptureError

aten = torch.ops.aten
Form = Callable[..., Any]  # (overload, *arguments) -> results

_LOWER = """
_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell
rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention
"""
_FLOAT32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim
nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
"""
_FLOAT32_RESULT = """
prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList
"""
_WIDEST = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
"""
_NORMS = {
    "norm.Scalar": aten.norm.ScalarOpt_dtype,
    "norm.ScalarOpt_dim": aten.norm.ScalarOpt_dim_dtype,
}

_casts = threading.local()  # .of: id of a weight -> the weight and its cast, until autocast ends


def forget_casts() -> None:
    """Drops the cached casts. Torch calls it when the outermost autocast of this thread ends."""
    _casts.of = {}


def forms() -> Iterator[tuple[str, Form]]:
    """Names of operators, and the functions that run them, under autocast or without it."""
    rules = {
        _LOWER: _in_lower,
        _FLOAT32: _in_float32,
        _FLOAT32_RESULT: _to_float32,
        _WIDEST: _widest,
    }
    for names, rule in rules.items():
        for name in names.split():
            yield name, rule
    for name in _NORMS:
        yield name, functools.partial(_norm, name)
    yield "binary_cross_entropy", _unsafe


def lowered(form: Form) -> Form:
    """`form` with its arguments in the lower precision, under autocast."""
    return functools.partial(_in_lower, inner=form)


def _in_lower(
    overload: torch._ops.OpOverload, *args: Any, inner: Form | None = None, **kwargs: Any
) -> Any:
    dtype = _lower_dtype()
    if dtype is not None:
        args, kwargs = _cast(args, dtype), _cast(kwargs, dtype)
    return overload(*args, **kwargs) if inner is None else inner(overload, *args, **kwargs)


def _in_float32(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    if torch.is_autocast_enabled("cuda"):
        args, kwargs = _cast(args, torch.float32), _cast(kwargs, torch.float32)
    return overload(*args, **kwargs)


def _to_float32(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    if torch.is_autocast_enabled("cuda") and _is_eligible(args[0]):
        names = [argument.name for argument in overload._schema.arguments]
        kwargs = {**dict(zip(names[1:], args[1:])), **kwargs}
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = torch.float32
        return overload(args[0], **kwargs)
    return overload(*args, **kwargs)


def _norm(name: str, overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_autocast_enabled("cuda") or not _is_eligible(args[0]):
        return overload(*args, **kwargs)
    arguments = overload._schema.arguments
    given = {a.name: a.default_value for a in arguments if a.has_default_value()}
    given |= dict(zip([a.name for a in arguments], args)) | kwargs
    ordered = [given[argument.name] for argument in arguments]
    return _NORMS[name](*ordered, dtype=torch.float32)


def _widest(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    dtype = _lower_dtype()
    if dtype is not None:
        floats = [t for t in _tensors((*args, *kwargs.values())) if _is_eligible(t)]
        if any(t.dtype == torch.float32 for t in floats):
            dtype = torch.float32
        args, kwargs = _cast(args, dtype), _cast(kwargs, dtype)
    return overload(*args, **kwargs)


def _unsafe(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    if torch.is_autocast_enabled("cuda"):
        raise CaptureError(
            "binary_cross_entropy is not safe under CUDA's autocast, and torch refuses it",
            remedy="use binary_cross_entropy_with_logits, which needs no sigmoid before it",
        )
    return overload(*args, **kwargs)


def _lower_dtype() -> torch.dtype | None:
    """The lower precision of autocast; None without autocast."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, torch.Tensor):
            yield value


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, dict):
        return {name: _cast(entry, dtype) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(entry, dtype) for entry in value)
    if not _is_eligible(value) or value.dtype == dtype:
        return value
    if not (
        value.dtype == torch.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
        and torch.is_autocast_cache_enabled()
    ):
        return value.to(dtype)
    # A weight is cast once per autocast, although it may be used often.
    known = _casts.__dict__.setdefault("of", {})
    if id(value) not in known:
        known[id(value)] = (value, value.to(dtype))
    return known[id(value)][1]
