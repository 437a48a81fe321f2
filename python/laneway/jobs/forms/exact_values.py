"""Exact values: what is said of an object so that two sayings are equal exactly when no computation
can tell the objects apart."""

from __future__ import annotations

import enum
import os
import struct
from typing import Any

import torch

_SIMPLE = (bool, int, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
# Compared by ==, which says all that there is to them.
_VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, range, slice, os.PathLike)


class Same:
    """Equal for the same object alone, which it keeps alive."""

    __slots__ = ("object",)

    def __init__(self, of: Any) -> None:
        self.object = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


def exact(value: Any) -> Any:
    """What two equal simple values have in common and no others; None for other objects."""
    kind = type(value)
    if kind in _SIMPLE:
        return kind, value
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if kind in (tuple, torch.Size):
        parts = [exact(part) for part in value]
        return None if any(part is None for part in parts) else (kind, tuple(parts))
    if isinstance(value, enum.Enum):
        return kind, value.name
    if isinstance(value, _VALUES):
        return kind, value
    if kind.__module__ == "numpy" and hasattr(value, "tobytes") and not _has_objects(value):
        return kind, str(value.dtype), value.shape, value.tobytes()
    return None


def _has_objects(array: Any) -> bool:
    return bool(array.dtype.hasobject)


class Facts(tuple):
    """Pairs of a name and a value: several facts about one object."""

    __slots__ = ()

    def difference(self, other: Facts) -> str:
        """The first fact that is another one in `other`, in words."""
        name, mine, theirs = next(
            (name, mine, theirs) for (name, mine), (_, theirs) in zip(self, other) if mine != theirs
        )
        return f"{name} is {shown(mine)} and was {shown(theirs)}"


def shown(value: Any) -> str:
    """What is said of an object, for a message."""
    if isinstance(value, Facts):
        return "a tensor"
    if isinstance(value, Same):
        of = value.object
        name = getattr(of, "__qualname__", None) or getattr(of, "co_qualname", None)
        return f"{type(of).__name__} {name}" if name else f"a {type(of).__name__} of its own"
    text = repr(_plain(value))
    return text if len(text) <= 120 else text[:117] + "..."


def _plain(value: Any) -> Any:
    """The object of which exact() said that."""
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type)):
        return value
    kind, content = value
    if kind is float:
        return struct.unpack("d", content)[0]
    if kind is complex:
        return complex(*struct.unpack("dd", content))
    if kind in (tuple, torch.Size):
        return tuple(map(_plain, content))
    return content
