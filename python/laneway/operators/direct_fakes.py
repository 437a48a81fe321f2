"""Runs the operators that most steps are made of on fake tensors, without a fake mode's dispatch.

In the end a fake mode runs an operator's meta kernel on the fakes and wraps the result. Before that
it computes keys of its cache, and dispatches every operator of a decomposition again, which takes
most of a capture's time. Where all tensors are dense and alike not even the kernel is needed. The
result is the same; a test compares it for every operator of these tables.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)

from laneway.operators import ctc

aten = torch.ops.aten

# For floating tensors of one shape, dtype and row-major layout, these give another such tensor.
ELEMENTWISE = frozenset(
    {
        aten.add.Scalar,
        aten.add.Tensor,
        aten.addcdiv.default,
        aten.addcmul.default,
        aten.div.Scalar,
        aten.div.Tensor,
        aten.exp.default,
        aten.gelu.default,
        aten.gelu_backward.default,
        aten.hardsigmoid.default,
        aten.hardsigmoid_backward.default,
        aten.hardswish.default,
        aten.hardswish_backward.default,
        aten.mul.Scalar,
        aten.mul.Tensor,
        aten.neg.default,
        aten.pow.Tensor_Scalar,
        aten.relu.default,
        aten.rsqrt.default,
        aten.sigmoid.default,
        aten.sqrt.default,
        aten.sub.Tensor,
        aten.tanh.default,
        aten.tanh_backward.default,
        aten.threshold_backward.default,
    }
)
# These return their first argument, which keeps its shape.
IN_PLACE = frozenset(
    {
        aten.add_.Scalar,
        aten.add_.Tensor,
        aten.addcdiv_.default,
        aten.addcmul_.default,
        aten.copy_.default,
        aten.div_.Scalar,
        aten.div_.Tensor,
        aten.hardswish_.default,
        aten.lerp_.Scalar,
        aten.mul_.Scalar,
        aten.mul_.Tensor,
        aten.relu_.default,
        aten.sqrt_.default,
    }
)
# Results depend on sizes, strides and dtypes alone, and there is a meta kernel in C++ or one that
# calls only such. No factory, no convolution, no operator with special treatment in a fake mode.
BY_META_KERNEL = frozenset(
    {
        aten.alias.default,
        aten.as_strided.default,
        aten.detach.default,
        aten.expand.default,
        aten.permute.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.dim,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
        aten._unsafe_view.default,
        aten.bmm.default,
        aten.cat.default,
        aten.mm.default,
    }
)
_BATCH_NORM = aten._native_batch_norm_legit.default
_BATCH_NORM_BACKWARD = aten.native_batch_norm_backward.default
_CPU = torch.device("cpu")


class DirectFakes:
    """One per capture; used inside its fake mode by one thread."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self._mode = fake_mode

    def run(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The fake mode's result of func(*args, **kwargs); NotImplemented for calls that the fake
        mode must run."""
        if func in ELEMENTWISE:
            return self._like(args[0]) if self._all_like_first(args, kwargs) else NotImplemented
        if func in IN_PLACE:
            return args[0] if self._all_like_first(args, kwargs) else NotImplemented
        if func in BY_META_KERNEL:
            return self._by_meta_kernel(func, args, kwargs)
        if func is _BATCH_NORM:
            image, weight, bias, mean, variance, training = args[:6]
            vectors = (weight, bias, mean, variance)
            if training and self._are_norm_operands((image,), vectors):
                return self._like(image), self._like(weight), self._like(weight)
        elif func is _BATCH_NORM_BACKWARD:
            gradient, image, weight, mean, variance, *saved = args[:7]
            training, _, wanted = args[7:]
            vectors = (weight, mean, variance, *saved)
            if training and all(wanted) and self._are_norm_operands((gradient, image), vectors):
                return self._like(image), self._like(weight), self._like(weight)
        return ctc.fake(func, args)

    def _all_like_first(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether all operands are row-major tensors of one shape and floating dtype, or real
        numbers, which leave that dtype as it is."""
        first = args[0]
        if not self._is_plain(first) or not first.is_floating_point() or not _is_row_major(first):
            return False
        shape, stride, dtype = first.shape, first.stride(), first.dtype
        for value in (*args[1:], *kwargs.values()):
            if isinstance(value, torch.Tensor):
                if not self._is_plain(value) or value.dtype != dtype:
                    return False
                if value.shape != shape or value.stride() != stride:
                    return False
            elif not isinstance(value, (bool, int, float, str)) and value is not None:
                return False
        return True

    def _are_norm_operands(self, images: tuple, vectors: tuple) -> bool:
        """Whether `images` are row-major tensors of one shape and dtype, and `vectors` have the
        length of their second dimension."""
        first = images[0]
        if first.dtype not in (torch.float32, torch.float64) or first.dim() < 2:
            return False  # for other dtypes the statistics have a dtype of their own
        if not self._all_like_first(images, {}):
            return False
        return all(
            self._is_plain(vector)
            and vector.dtype == first.dtype
            and vector.shape == first.shape[1:2]
            and vector.stride() == (1,)
            for vector in vectors
        )

    def _by_meta_kernel(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        for value in (*args, *kwargs.values()):
            for element in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(element, torch.Tensor) and not self._is_plain(element):
                    return NotImplemented
        with in_kernel_invocation_manager(self._mode):
            result = func(*args, **kwargs)
        return self._wrapped(result)

    def _is_plain(self, tensor: Any) -> bool:
        """Whether `tensor` is a fake of this mode with unknown contents."""
        return (
            type(tensor) is FakeTensor
            and tensor.fake_mode is self._mode
            and tensor.constant is None
            and tensor.layout == torch.strided
            and tensor.device == _CPU
        )

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        with in_kernel_invocation_manager(self._mode):
            made = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        return self._wrapped(made)

    def _wrapped(self, made: torch.Tensor) -> torch.Tensor:
        return self._mode.fake_tensor_converter.from_meta_and_device(self._mode, made, _CPU)


def _is_row_major(tensor: torch.Tensor) -> bool:
    """Whether the tensor has elements, and exactly the strides that torch gives a new tensor of its
    shape."""
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if stride != expected:
            return False
        expected *= size
    return expected > 0
