"""During a capture, libraries that ask torch whether a tensor is a fake get the answer no.

Hugging Face's models do not look into a mask when it is a fake, and then compute otherwise than in
eager. A capture works out what they would see (known_numbers.py), so they are to look. The question
goes to torch._subclasses.FakeTensor, where a class stands during captures that answers code of the
capturing thread outside torch and this package; everybody else is told the truth. Whoever has taken
the class itself from torch._subclasses.fake_tensor is not seen.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch._subclasses
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture.user_lines import is_internal
from laneway.native.process import SharedChange

_capturing = threading.local()  # .depth: how many captures this thread is inside of


@contextlib.contextmanager
def denied() -> Iterator[None]:
    """Inside, this thread's libraries take fakes for plain tensors."""
    with _denying:
        _capturing.depth = getattr(_capturing, "depth", 0) + 1
        try:
            yield
        finally:
            _capturing.depth -= 1


class _Answering(type(FakeTensor)):
    def __instancecheck__(cls, thing: Any) -> bool:
        if not isinstance(thing, FakeTensor):
            return False
        return not getattr(_capturing, "depth", 0) or is_internal(sys._getframe(1).f_code)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, FakeTensor)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return FakeTensor(*args, **kwargs)


class _StandIn(FakeTensor, metaclass=_Answering):
    """Stands for FakeTensor, and has no instances of its own."""


def _stand_in() -> None:
    torch._subclasses.FakeTensor = _StandIn


def _leave() -> None:
    torch._subclasses.FakeTensor = FakeTensor


_denying = SharedChange(_stand_in, _leave)
