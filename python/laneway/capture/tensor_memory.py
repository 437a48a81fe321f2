"""What a step reads of a tensor by its memory, with no operator: lists, arrays, text, addresses.

A tensor of the job or of the call's arguments has no memory while a step is captured, and reads of
it are refused. One from outside has: its bytes are compared before each call from then on.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.user_lines import is_internal, is_own_code
from laneway.capture.uses import Place
from laneway.capture.watcher import Watcher
from laneway.errors import CaptureError
from laneway.native.process import SharedChange

# A tensor of more bytes is not copied before each call.
MOST_BYTES = 1 << 16
# These read what a tensor has; those of a fake that torch does not refuse itself, from its memory
# or by itself, are refused here.
_CONTENTS = ("tolist", "numpy", "__array__", "__dlpack__", "__reduce_ex__")
_OF_FAKES = ("__dlpack__", "__reduce_ex__")
# Torch's own code asks for these of tensors without data, too.
_ADDRESSES = ("data_ptr", "untyped_storage", "storage")
_MISSING = object()
_capturing = threading.local()  # .reads: those of this thread's capture


class Noting(Protocol):
    """Who raises refusals: recorder.Recorder."""

    def noted(self, message: str, remedy: str, source: str | None = None) -> CaptureError:
        """The error for what the message says, which is raised in any case."""


class TensorMemory:
    """One per run of a step. Without a recorder nothing is seen: an eager run may read all of
    it."""

    def __init__(self, recorder: Noting | None, watch: Watcher) -> None:
        self._recorder, self._watch = recorder, watch

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Inside, what this thread reads is seen."""
        with _serving:
            around = getattr(_capturing, "reads", None)
            _capturing.reads = None if self._recorder is None else self
            try:
                yield
            finally:
                _capturing.reads = around
                self._recorder = None  # else the collector would have to look for it (survivors.py)

    def reads(self, tensor: torch.Tensor, name: str) -> None:
        """All that a tensor from outside has."""
        known = self._watch.tensors.place_of(tensor)
        of, place = known or (tensor, Place(None, "root", 0, "a tensor from outside of it"))
        if id(of) in self._watch.fakes:
            self.refuse(name)
        is_plain = of.layout == torch.strided and not (of.is_quantized or of.is_nested)
        size = of.numel() * of.element_size() if is_plain else 0
        if size > MOST_BYTES or not is_plain:
            kind = f"of {size:,} bytes" if is_plain else "sparse, nested or quantized"
            raise self._noted(
                f"the step reads {place.words}, {kind}, by {name}(): a call compares at most "
                f"{MOST_BYTES:,} bytes of a plain tensor with what the step was captured with",
                "use torch operators, or read it outside of the step and give the step what it has "
                "as an argument",
            )
        if known is None:
            self._watch.alone = "it reads the data of a tensor that it finds where nobody looks"
        look = torch.Tensor.data_ptr if name in _ADDRESSES else _contents
        self._watch.look(of, place, look, f"the data of {place.words}")

    def refuse(self, name: str) -> None:
        """The read of a tensor of the job, of the call, or that the step computes."""
        raise self._noted(
            f"the step reads a tensor's data in Python, by {name}()",
            "use torch operators instead, or compute it outside the step",
        )

    def _noted(self, message: str, remedy: str) -> CaptureError:
        assert self._recorder is not None, "nothing is seen without it"
        return self._recorder.noted(message, remedy)


class Contents:
    """The form and the bytes of a tensor."""

    def __call__(self, of: torch.Tensor) -> tuple:
        with _disable_current_modes(), torch.no_grad():
            plain = of.detach().cpu().resolve_conj().resolve_neg().flatten().contiguous()
            data = plain.view(torch.uint8).numpy().tobytes()
            form = tuple(of.shape), tuple(of.stride()), of.requires_grad, str(of.device)
            return of.dtype, *form, data

    def put(self, of: torch.Tensor, value: tuple) -> None:
        """Gives a tensor its bytes again."""
        dtype, shape, *_, data = value
        if tuple(of.shape) == shape and data:
            with _disable_current_modes(), torch.no_grad():
                of.copy_(torch.frombuffer(bytearray(data), dtype=dtype).view(shape))


_contents = Contents()


@contextlib.contextmanager
def read_by(name: str, tensor: torch.Tensor) -> Iterator[None]:
    """Inside, this function has the data of a tensor from outside, which this thread's capture is
    told of."""
    reads = getattr(_capturing, "reads", None)
    if reads is None:
        yield
        return
    reads.reads(tensor, name)
    with _disable_current_modes():
        yield


def _told(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    def told(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        reads = getattr(_capturing, "reads", None)
        asks = sys._getframe(1).f_code
        is_address = name in _ADDRESSES
        if reads is None or (is_internal(asks) if is_address else is_own_code(asks)):
            return own(self, *args, **kwargs)
        if isinstance(self, FakeTensor):
            if is_address or name in _OF_FAKES:
                reads.refuse(name)
            return own(self, *args, **kwargs)
        with read_by(name, self):
            return own(self, *args, **kwargs)

    told.__name__, told.__qualname__ = name, f"Tensor.{name}"
    return told


_told_now: dict[str, tuple[Any, Any]] = {}  # by name: what torch.Tensor itself had, what it has


def _serve() -> None:
    for name in (*_CONTENTS, *_ADDRESSES):
        told = _told(name, getattr(torch.Tensor, name))
        _told_now[name] = vars(torch.Tensor).get(name, _MISSING), told
        setattr(torch.Tensor, name, told)


def _leave() -> None:
    for name, (own, told) in _told_now.items():
        if vars(torch.Tensor).get(name) is not told:
            continue
        if own is _MISSING:
            delattr(torch.Tensor, name)
        else:
            setattr(torch.Tensor, name, own)
    _told_now.clear()


_serving = SharedChange(_serve, _leave)
