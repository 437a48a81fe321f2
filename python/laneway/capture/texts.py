"""Text that a step makes of what it computes. Printed, logged or written, it would be made at the
capture alone, without the number. Such text is refused, also where the caller ignores exceptions,
as logging does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture import outside, tensor_memory
from laneway.capture.user_lines import is_internal
from laneway.errors import CaptureError
from laneway.native.process import SharedChange

_capturing = threading.local()  # .recorder: the capture of this thread, if there is one
_OF_TENSORS = ("_tensor.py", "_tensor_str.py", "fake_tensor.py", "overrides.py")
_text_of = torch._tensor_str._str
_raises = logging.raiseExceptions  # whether logging prints exceptions that it ignores


class _Recorder(Protocol):
    def text_refusal(self, of: str) -> CaptureError:
        """The error for text of what `of` names, which is raised in any case."""


@contextlib.contextmanager
def refused_by(recorder: _Recorder) -> Iterator[None]:
    """Inside, text of this thread's fake tensors is refused."""
    with _serving:
        around, _capturing.recorder = getattr(_capturing, "recorder", None), recorder
        try:
            yield
        finally:
            _capturing.recorder = around


def _text(tensor: Any, *args: Any, **kwargs: Any) -> str:
    recorder = getattr(_capturing, "recorder", None)
    if recorder is None or _is_torchs_own():
        return _text_of(tensor, *args, **kwargs)
    if isinstance(tensor, FakeTensor):
        raise recorder.text_refusal("a tensor that it computes")
    with tensor_memory.read_by("repr", tensor):
        return _text_of(tensor, *args, **kwargs)


def _is_torchs_own() -> bool:
    """Whether torch asks for the text, for a message that it may never show."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and os.path.basename(frame.f_code.co_filename) in _OF_TENSORS:
        frame = frame.f_back
    return frame is not None and is_internal(frame.f_code) and not _is_logging(frame)


def _is_logging(frame: types.FrameType) -> bool:
    """Or whoever makes the text that a user prints (outside.py)."""
    return frame.f_code.co_filename.startswith(
        (os.path.dirname(logging.__file__), outside.__file__)
    )


def _serve() -> None:
    global _raises
    torch._tensor_str._str = _text
    _raises, logging.raiseExceptions = logging.raiseExceptions, False


def _leave() -> None:
    torch._tensor_str._str = _text_of
    logging.raiseExceptions = _raises


_serving = SharedChange(_serve, _leave)
