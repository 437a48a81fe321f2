"""During a capture, libraries that ask torch whether a tensor is a fake get the answer no.

Hugging Face's models do not read a mask when it is a fake, and then compute otherwise than in eager
execution. A capture computes the numbers that they would read (known_numbers.py), so they should
read the mask. Such code asks isinstance(…, torch._subclasses.FakeTensor). During captures another
class has that name; it answers no to code of the capturing thread outside of torch and this
package, and the truth to all other code. Code that imported the class from
torch._subclasses.fake_tensor gets the truth too.
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
    """Inside, libraries on this thread take fakes for plain tensors."""
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
    """Has the place of FakeTensor, and no instances of its own."""


def _stand_in() -> None:
    torch._subclasses.FakeTensor = _StandIn


def _leave() -> None:
    torch._subclasses.FakeTensor = FakeTensor


_denying = SharedChange(_stand_in, _leave)
