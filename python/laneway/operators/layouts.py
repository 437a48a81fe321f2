"""The strides and dtypes of results, for operators whose fake tensors have others than the kernels.

A capture decides by the strides of fakes: whether a result is a view or a copy, and its layout for
the user. For most operators fakes have the strides and the dtypes of the CPU's kernels. For the
operators listed here they have not, so the kernel itself runs once on stand-ins for its operands.
The lists come from PyTorch's own operator database, run on both
(tests/python/test_fake_layouts.py), and are those of torch 2.11. Another version needs none of its
own: where its fakes are right, a kernel runs for nothing. The job finds an operator that the lists
miss: its first iteration compares every result's layout, sizes and dtype with the graph's. If one
differs, this process measures the operator from then on (`distrust`) and captures the call again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from laneway.graph.target import Target
from laneway.operators import operators, whole_operators

aten = torch.ops.aten

# Reduced losses keep the memory of the tensor that they reduce.
_EVERYWHERE = frozenset({"aten::mse_loss", "aten::smooth_l1_loss"})
# Other devices give other results than the CPU: recurrent layers keep a workspace for the backward
# pass, fused attention gives no unused weights.
_ON_CPU = frozenset(
    {
        "aten::mkldnn_rnn_layer",
        "aten::_embedding_bag",
        "aten::_native_multi_head_attention",
        "aten::_grouped_mm",
        "aten::multilabel_margin_loss_forward",
        "aten::_fft_c2c",
        "aten::_fft_c2r",
        "aten::_fft_r2c",
        *whole_operators.OPERATORS,  # fakes cannot run them at all
    }
)
# For fakes a permuted operand gives a permuted result and in reality it does not, or the reverse.
_ON_CPU_WHEN_UNUSUAL = frozenset(
    {
        "aten::_batch_norm_with_update",
        "aten::_log_softmax_backward_data",
        "aten::batch_norm_backward",
        "aten::channel_shuffle",
        "aten::copysign.Tensor",
        "aten::diagonal_scatter",
        "aten::div.Tensor_mode",
        "aten::floor_divide",
        "aten::glu_backward",
        "aten::heaviside",
        "aten::huber_loss_backward",
        "aten::ldexp.Tensor",
        "aten::log_sigmoid_forward",
        "aten::logaddexp",
        "aten::logaddexp2",
        "aten::logical_and",
        "aten::logical_or",
        "aten::logical_xor",
        "aten::max_unpool2d",
        "aten::mse_loss_backward",
        "aten::native_dropout_backward",
        "aten::native_layer_norm_backward",
        "aten::nll_loss2d_forward",
        "aten::normal.Tensor_Tensor",
        "aten::pow.Scalar",
        "aten::reflection_pad2d",
        "aten::reflection_pad2d_backward",
        "aten::reflection_pad3d",
        "aten::reflection_pad3d_backward",
        "aten::replication_pad2d",
        "aten::replication_pad2d_backward",
        "aten::replication_pad3d",
        "aten::replication_pad3d_backward",
        "aten::select_scatter",
        "aten::slice_scatter",
        "aten::smooth_l1_loss_backward",
        "aten::view_copy",
        "aten::xlogy.Tensor",
    }
)

# Their fake forms refuse labels of uint8, which the CPU takes.
_LABEL_OPERATORS = frozenset(
    {
        aten.nll_loss_forward.default,
        aten.nll_loss_backward.default,
        aten.nll_loss2d_forward.default,
        aten.nll_loss2d_backward.default,
    }
)
# Their fake results keep the layout of a permuted input, the real ones are dense in a usual format;
# and their statistics are float16 or bfloat16 when the input is, the real ones are float32.
_NORMS = frozenset(
    {
        aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_no_training.default,
        aten.native_batch_norm_backward.default,
    }
)
_USUAL_FORMATS = {
    4: (torch.contiguous_format, torch.channels_last),
    5: (torch.contiguous_format, torch.channels_last_3d),
}
_REDUCED = (torch.float16, torch.bfloat16)
# Their statistics, and gradients of weights, have the input's dtype in fakes, and float32 in
# reality when the weights are float32 and the input is not, as under autocast.
_MIXED_NORMS = frozenset(
    {
        aten.native_layer_norm.default,
        aten.native_layer_norm_backward.default,
        aten.native_group_norm.default,
        aten.native_group_norm_backward.default,
    }
)

_distrusted: set[str] = set()
_lock = threading.Lock()


def distrust(operator: str) -> bool:
    """From now on captures for the CPU measure the operator ("aten::fft_c2c"). Returns False when
    they did before: measuring does not help."""
    with _lock:
        known = operator in _distrusted or operator in _ON_CPU
        _distrusted.add(operator)
        return not known


def distrusted() -> list[str]:
    """The operators that are measured because of distrust(), in a fixed order."""
    with _lock:
        return sorted(_distrusted)


def is_measured(overload: torch._ops.OpOverload, args: tuple, target: Target) -> bool:
    """Whether the call's fake results may have other layouts, sizes or dtypes than the real ones,
    and the CPU can show the real ones."""
    name = overload.name()
    if name in _EVERYWHERE:
        return True
    if overload in _LABEL_OPERATORS and any(t.dtype == torch.uint8 for t in _tensors(args)):
        return True
    if overload in _NORMS and not all(map(_is_usual, _tensors(args))):
        return True
    if target is not Target.cpu:
        return False
    if name in _ON_CPU or name in _distrusted:
        return True
    if overload in _MIXED_NORMS and len({tensor.dtype for tensor in _tensors(args)}) > 1:
        return True
    return name in _ON_CPU_WHEN_UNUSUAL and not all(
        tensor.is_contiguous() for tensor in _tensors(args)
    )


def _tensors(args: tuple) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def _is_usual(tensor: torch.Tensor) -> bool:
    formats = _USUAL_FORMATS.get(tensor.dim(), (torch.contiguous_format,))
    return tensor.dtype not in _REDUCED and any(
        tensor.is_contiguous(memory_format=each) for each in formats
    )


def measured(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Fake results with the layouts and storages of the operator's real results. NotImplemented
    when the operator accepts none of the stand-ins, for example an inverse of zeros."""
    draws_from = operators.generator_argument(func)
    if draws_from is not None:
        kwargs = {**kwargs, draws_from: torch.Generator()}  # not the user's generator
    for fill in (torch.Tensor.zero_, _ones, _identity):
        standing = _StandIns(fill)
        try:
            with _disable_current_modes(), torch._C._AutoDispatchBelowADInplaceOrView():
                real = func(*standing.of(args), **standing.of(kwargs))
        except Exception:  # a kernel may refuse the stand-ins' numbers with any exception
            continue
        with mode:
            fakes = _Fakes(standing)
            return pytree.tree_map_only(torch.Tensor, fakes.of, real)
    return NotImplemented


class _StandIns:
    """Real tensors with the layouts of one call's fakes, in memory of their own."""

    def __init__(self, fill: Callable[[torch.Tensor], Any]) -> None:
        self._fill = fill
        self.fakes: dict[int, torch.Tensor] = {}  # storage of a stand-in -> the fake
        self.originals: dict[int, torch.Tensor] = {}  # id of a stand-in -> the fake
        self._kept: list[torch.Tensor] = []

    def of(self, arguments: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, self._standing, arguments)

    def _standing(self, given: torch.Tensor) -> torch.Tensor:
        count = given.untyped_storage().nbytes() // given.element_size()
        memory = torch.zeros(count, dtype=given.dtype)  # operators may keep all of it
        made = memory.as_strided(given.shape, given.stride(), given.storage_offset())
        self._fill(made)
        self.fakes[made.untyped_storage()._cdata] = given
        self.originals[id(made)] = given
        self._kept.append(made)
        return made


class _Fakes:
    """Fakes of real results, with one fake storage per real storage."""

    def __init__(self, standing: _StandIns) -> None:
        self._standing = standing
        self._wholes: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def of(self, real: torch.Tensor) -> torch.Tensor:
        if id(real) in self._standing.originals:  # the result is an operand
            return self._standing.originals[id(real)]
        storage = real.untyped_storage()
        operand = self._standing.fakes.get(storage._cdata)
        if operand is not None:
            return operand.as_strided(real.shape, real.stride(), real.storage_offset())
        key = (storage._cdata, real.dtype)
        if key not in self._wholes:
            count = storage.nbytes() // real.element_size()
            self._wholes[key] = torch.empty(count, dtype=real.dtype)
        return self._wholes[key].as_strided(real.shape, real.stride(), real.storage_offset())


def _ones(tensor: torch.Tensor) -> None:
    tensor.fill_(1)


def _identity(tensor: torch.Tensor) -> None:
    tensor.zero_()
    if tensor.dim() >= 2:
        tensor.diagonal(dim1=-2, dim2=-1).fill_(1)
