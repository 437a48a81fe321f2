"""What torch decides in C++ by looking at a tensor's device, decided as for CUDA.

Attention and recurrent layers are operators made of others: which ones, their C++ code picks by the
device of what it is given, above autograd, and for the CPU fakes of a capture it would pick the
CPU's. So inside `as_on_cuda` the capturing thread has one more dispatch key than others, that of a
device which this torch has no code for; the dispatcher comes to it before autograd and before any
of those operators is taken apart, whoever calls it. The kernels registered here for that key pick
what CUDA would run; for all other operators, and for all other threads, the key is not there.

The same key applies CUDA's autocast (see cuda_autocast.py), and keeps tensors that the step moves
to "cuda" where they are: every tensor of a capture is on the device of its job.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from laneway import cuda_attention, cuda_autocast, cuda_recurrent

_NAME = "AutocastIPU"
_KEY = getattr(torch._C.DispatchKey, _NAME)

_registering = threading.Lock()
_libraries: list[torch.library.Library] = []  # kept: with them the kernels would go


@contextlib.contextmanager
def as_on_cuda() -> Iterator[None]:
    """Inside, operators of this thread are taken apart as they are for CUDA tensors."""
    _register()
    with _key(True):
        yield


@contextlib.contextmanager
def _key(included: bool) -> Iterator[None]:
    dispatch = torch._C
    was_included = dispatch._dispatch_tls_is_dispatch_key_included(_KEY)
    was_excluded = dispatch._dispatch_tls_is_dispatch_key_excluded(_KEY)
    dispatch._dispatch_tls_set_dispatch_key_included(_KEY, included)
    dispatch._dispatch_tls_set_dispatch_key_excluded(_KEY, not included)
    try:
        yield
    finally:
        dispatch._dispatch_tls_set_dispatch_key_included(_KEY, was_included)
        dispatch._dispatch_tls_set_dispatch_key_excluded(_KEY, was_excluded)


def _register() -> None:
    """Once in a process, when the first capture for CUDA begins."""
    with _registering:
        if _libraries:
            return
        every, ours = (torch.library.Library(of, "IMPL") for of in ("_", "aten"))
        every.fallback(torch.library.fallthrough_kernel, _NAME)
        for name, form in _FORMS.items():
            overload = _overload(name)
            ours.impl(name, _kernel(overload, form), _NAME)
        _libraries.extend((every, ours))


def _overload(name: str) -> torch._ops.OpOverload:
    family, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, family), overload or "default")


def _kernel(overload: torch._ops.OpOverload, form: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _key(False):
            return form(overload, *args, **kwargs)

    return kernel


def _stay(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """A move to a CUDA device leaves the tensor where it is."""
    return overload(*here(args), **{name: here(value) for name, value in kwargs.items()})


def here(value: Any) -> Any:
    """A call's argument, or its arguments, with the device of the capture's tensors in place of a
    CUDA device."""
    if isinstance(value, tuple):
        return tuple(map(here, value))
    is_cuda = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_cuda else value


_FORMS: dict[str, Callable[..., Any]] = {
    "to.device": _stay,
    "to.dtype_layout": _stay,
    **dict(cuda_autocast.forms()),
    "scaled_dot_product_attention": cuda_autocast.lowered(cuda_attention.attention),
    "lstm.input": cuda_autocast.lowered(cuda_recurrent.lstm),
    "gru.input": cuda_autocast.lowered(cuda_recurrent.gru),
    "rnn_tanh.input": cuda_autocast.lowered(cuda_recurrent.rnn_tanh),
    "rnn_relu.input": cuda_autocast.lowered(cuda_recurrent.rnn_relu),
}
