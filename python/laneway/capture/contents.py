"""What an argument that is no tensor holds, to find out whether it holds the same later.

A step's Python reads such an argument at capture only. The same object may have other attributes by
the next call, so it is compared by what it held, not by itself.
"""

from __future__ import annotations

import enum
import struct
import types
from typing import Any

import torch

from laneway.errors import CaptureError

_SIMPLE = (bool, int, str, bytes, type(None))
# Whoever has one of these has it by itself: what it holds is code, or not the step's to change.
_BY_ITSELF = (
    type,
    enum.Enum,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.Generator,
)
_MOST_PARTS = 4096


def content_of(value: Any, name: str) -> Any:
    """What the value holds at any depth, to be compared with ==; None for a simple value, which
    says all by itself. Raises CaptureError for more parts than a call could compare."""
    if type(value) in (*_SIMPLE, float, complex) or isinstance(value, _BY_ITSELF):
        return None
    return _Walk(name).content(value)


class _Walk:
    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # keeps the ids taken

    def content(self, value: Any) -> Any:
        of = type(value)
        if of in _SIMPLE:
            return of, value
        if of is float:
            return of, struct.pack("d", value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        if len(self._seen) > _MOST_PARTS:
            raise CaptureError(
                f"{self._name} holds more than {_MOST_PARTS} objects, too many to compare before "
                "each call",
                remedy="pass the values that the step needs themselves",
            )
        if isinstance(value, _BY_ITSELF):
            return "itself", id(value), value
        return of, self._parts(value)

    def _parts(self, value: Any) -> list[Any]:
        parts: list[Any] = []
        if isinstance(value, dict):
            items = dict.items(value)
            parts.append([(self.content(key), self.content(part)) for key, part in items])
        elif isinstance(value, (list, tuple)):
            parts.append([self.content(part) for part in list(value)])
        elif isinstance(value, (set, frozenset)):
            parts.append(frozenset(map(hash, value)))
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            parts.append([(key, self.content(part)) for key, part in attributes.items()])
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    parts.append((name, self.content(getattr(value, name))))
        if isinstance(value, types.MethodType):
            parts += [self.content(value.__self__), self.content(value.__func__)]
        return parts
