"""Facts about tensors at the border of a graph, as inputs and as results."""

from __future__ import annotations

from collections.abc import Sequence

import torch

# A tensor that spans more bytes is sent with its gaps only where its elements are at least an
# eighth of them.
_MOST_GAPS = 16 << 20


def is_all_of_its_memory(tensor: torch.Tensor) -> bool:
    """Whether the job gets exactly the tensor's memory, byte for byte."""
    size = tensor.numel() * tensor.element_size()
    as_it_is = tuple(tensor.stride()) == expected_strides(tensor)
    starts = tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == size
    return as_it_is and starts and not (tensor.is_conj() or tensor.is_neg())


def expected_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The tensor's own strides, because kernels, and with them bits, are chosen by strides.
    Contiguous strides where the elements lie so far apart that most of the sent bytes would lie
    between them."""
    if tensor.is_conj() or tensor.is_neg():  # resolved first, as kernels do
        return tuple(torch.empty_like(tensor, device="meta").stride())
    if is_scattered(tensor):
        return tuple(torch.empty(tensor.shape, device="meta").stride())
    return tuple(tensor.stride())


def place_of(tensor: torch.Tensor) -> int | None:
    """How many bytes behind a multiple of 16 the tensor begins that a call gives the job: a copy
    begins at 0. None for one without elements, or of another alignment than its elements'."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.numel() == 0:
        return None
    if tuple(tensor.stride()) != expected_strides(tensor) or tensor.is_conj() or tensor.is_neg():
        return 0
    place = tensor.data_ptr() & 15
    return None if place % tensor.element_size() else place


def spanned_bytes(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> int:
    """The number of bytes from the first to the last byte of such a tensor."""
    if 0 in sizes:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return (steps + 1) * dtype.itemsize


def is_scattered(tensor: torch.Tensor) -> bool:
    """Whether the tensor's elements are copied together before they are sent."""
    if torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return False
    span = spanned_bytes(tensor.shape, tensor.stride(), tensor.dtype)
    return span > _MOST_GAPS and span > 8 * tensor.numel() * tensor.element_size()


def can_be_laid_out(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> bool:
    """Whether a new tensor can have this layout: expanded dimensions apart no two elements are at
    one place, and most of the memory is theirs."""
    end, count = 1, 1
    for stride, size in sorted(zip(strides, sizes)):
        if size == 1 or stride == 0:
            continue
        if stride < end:
            return False
        end += (size - 1) * stride
        count *= size
    return end * dtype.itemsize <= _MOST_GAPS or end <= 8 * count


def has_own_operators(tensor: torch.Tensor) -> bool:
    """Whether operators mean something else for the tensor's class than for plain tensors."""
    of = type(tensor)
    if of in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return False
    plain = (torch.Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)
    own = getattr(of.__torch_function__, "__func__", of.__torch_function__)
    dispatches = getattr(of, "__torch_dispatch__", torch._C._disabled_torch_dispatch_impl)
    return own not in plain or dispatches is not torch._C._disabled_torch_dispatch_impl
