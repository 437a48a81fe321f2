"""Makes the decisions that torch takes in Python by a tensor's device as for CUDA.

Optimizers take their foreach forms for CUDA tensors, and gradients are clipped by foreach
operators; capturable forms are accepted only there; attention modules have a fused form for
inference with a CUDA kernel that chooses an implementation in every call; autocast for CUDA is
switched off in a process without a GPU. Inside `as_for_cuda` these questions of the capturing
thread get the answers for CUDA, although its tensors are fakes on the CPU; other threads get
torch's answers.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.cuda import cuda_autocast
from laneway.native.process import SharedChange

_capturing = threading.local()  # .depth: how many captures for CUDA this thread is inside of


@contextlib.contextmanager
def as_for_cuda() -> Iterator[None]:
    """Inside, this thread's decisions are those for CUDA tensors."""
    with _deciding:
        _capturing.depth = getattr(_capturing, "depth", 0) + 1
        try:
            yield
        finally:
            _capturing.depth -= 1


def _form_of_optimizer(
    original: Callable[..., Any],
    params: list[torch.Tensor],
    differentiable: bool,
    use_fused: bool = False,
) -> tuple[bool, bool]:
    """Whether to take the fused form, and whether the foreach form; never both. A fake stands for a
    plain tensor or parameter, because slots hold no others."""
    if differentiable:
        return False, False
    present = [p for p in params if p is not None]
    if not all(_is_plain(p) for p in present):
        return original(params, differentiable, use_fused)
    fused = use_fused and all(torch.is_floating_point(p) for p in present)
    return fused, not fused


def _has_foreach(original: Callable[..., Any], tensors: list, device: torch.device) -> bool:
    return original([t for t in tensors if not isinstance(t, FakeTensor)], device)


def _capturable_devices(original: Callable[..., Any], supports_xla: bool = True) -> list[str]:
    return [*original(supports_xla), "cpu"]


def _no(original: Callable[..., Any], *args: Any) -> bool:
    return False


def _yes(original: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    return True


def _forget_casts(original: Callable[..., Any]) -> None:
    cuda_autocast.forget_casts()
    original()


def _is_plain(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, FakeTensor) or type(tensor) in (torch.Tensor, torch.nn.Parameter)


# A function of torch -> the answer for CUDA, given the function and its arguments.
_ANSWERS = {
    "_default_to_fused_or_foreach": _form_of_optimizer,
    "_get_capturable_supported_devices": _capturable_devices,
    "_has_foreach_support": _has_foreach,
    "get_fastpath_enabled": _no,
    # torch.autocast("cuda") calls these when it begins and when it ends.
    "amp_definitely_not_available": _no,
    "is_bf16_supported": _yes,
    "clear_autocast_cache": _forget_casts,
}
_HOMES = re.compile(
    r"torch|torch\.cuda|torch\.cuda\.amp\.\w+|torch\.amp\.\w+|torch\.optim\.\w+|"
    r"torch\.nn\.utils\.clip_grad|torch\.backends\.mha"
)

_replaced: list[tuple[Any, str, Callable[..., Any]]] = []


def _answering(original: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def ask(*args: Any, **kwargs: Any) -> Any:
        if getattr(_capturing, "depth", 0) == 0:
            return original(*args, **kwargs)
        return answer(original, *args, **kwargs)

    return ask


def _decide() -> None:
    # Each module has its own names for these functions, and looks them up at each call.
    for name, module in list(sys.modules.items()):
        if _HOMES.fullmatch(name) is None:
            continue
        for function, answer in _ANSWERS.items():
            original = module.__dict__.get(function)
            if original is not None:
                _replaced.append((module, function, original))
                setattr(module, function, _answering(original, answer))


def _leave() -> None:
    while _replaced:
        module, function, original = _replaced.pop()
        setattr(module, function, original)


_deciding = SharedChange(_decide, _leave)
