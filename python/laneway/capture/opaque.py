"""Tensors inside objects that torch's pytree does not look into, such as a language model's cache.

An object is taken apart by pickling it without its tensors; unpickling makes an object of the same
parts with other tensors in their places. The capture needs no knowledge of its class, which must
only support pickling.
"""

from __future__ import annotations

import enum
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.operators.scalars import SYMBOLS

# Types that hold no tensor, or that are the user's own and are passed on unchanged.
_WHOLE = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    enum.Enum,
    torch.dtype,
    torch.device,
    torch.memory_format,
    torch.nn.Module,
    Optimizer,
)


class NotCopyable(Exception):
    """The object cannot be pickled; the message has the reason. `found` are the tensors found until
    then."""

    def __init__(self, message: str, found: list[Any]) -> None:
        super().__init__(message)
        self.found = found


def is_whole(leaf: Any) -> bool:
    """Whether the object need not be taken apart."""
    return isinstance(leaf, _WHOLE)


class _Pickler(pickle.Pickler):
    """Leaves out tensors and numbers of a step, and has them in `found`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.found: list[Any] = []
        self._places: dict[int, int] = {}

    def persistent_id(self, part: Any) -> int | None:
        if not isinstance(part, (torch.Tensor, *SYMBOLS)):
            return None
        if id(part) not in self._places:
            self._places[id(part)] = len(self.found)
            self.found.append(part)
        return self._places[id(part)]


def take_apart(value: Any) -> tuple[bytes, list[Any]]:
    """The object without its tensors (and numbers that a step computes), and these in the order in
    which they were found, each once. Raises NotCopyable."""
    without = io.BytesIO()
    pickler = _Pickler(without)
    try:
        pickler.dump(value)
    except Exception as error:  # a class that cannot be pickled may raise any exception
        raise NotCopyable(f"{type(error).__name__}: {error}", pickler.found) from error
    return without.getvalue(), pickler.found


def put_together(without: bytes, part: Callable[[int], Any]) -> Any:
    """A new object from the bytes of take_apart, with part(n) in the place of the n-th tensor."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return part(place)

    return Unpickler(io.BytesIO(without)).load()
