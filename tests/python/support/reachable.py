"""Every object that can be reached from given ones, with what each of them holds, to be compared
with what it holds later."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import torch

_CONTAINERS = (dict, list, tuple, set, frozenset)
_NOT_ENTERED = (type, types.ModuleType, types.BuiltinFunctionType, str, bytes, int, float, complex)


class Reachable:
    """Keeps the objects alive, so that their ids stay theirs."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._objects: dict[int, tuple[str, Any]] = {}
        waiting = [(f"root {number}", root) for number, root in enumerate(roots)]
        while waiting:
            where, value = waiting.pop()
            if value is None or id(value) in self._objects or isinstance(value, _NOT_ENTERED):
                continue
            self._objects[id(value)] = where, value
            waiting += [(f"{where}{name}", part) for name, part in _parts(value)]
        self._held = {key: _held(value) for key, (_, value) in self._objects.items()}

    def __len__(self) -> int:
        return len(self._objects)

    def differences(self) -> list[str]:
        """Where an object holds something else now."""
        return [
            where
            for key, (where, value) in self._objects.items()
            if _held(value) != self._held[key]
        ]


def _parts(value: Any) -> list[tuple[str, Any]]:
    """What an object holds, with words for each."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts += [(f"[{key!r:.40}]", part) for key, part in dict.items(value)]
        parts += [(f" key {key!r:.40}", key) for key in dict.keys(value)]
    elif isinstance(value, _CONTAINERS):
        parts += [(f"[{n}]", part) for n, part in enumerate(_in_order(value))]
    elif isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        parts += [(f" cell {n}", cell.cell_contents) for n, cell in enumerate(cells)]
        parts += [(" defaults", value.__defaults__), (" attributes", value.__dict__)]
    elif isinstance(value, types.MethodType):
        parts += [(" self", value.__self__), (" function", value.__func__)]
    elif isinstance(value, torch.Tensor):
        parts += [(f".{name}", part) for name, part in _of_tensor(value)]
    if not isinstance(value, (types.FunctionType, type)):
        attributes = getattr(value, "__dict__", None)
        parts += [(".__dict__", attributes)] if isinstance(attributes, dict) else []
    return parts


def _in_order(value: Any) -> list[Any]:
    return list(list.__iter__(value)) if isinstance(value, list) else list(value)


def _of_tensor(tensor: torch.Tensor) -> list[tuple[str, Any]]:
    return [
        ("grad", tensor.grad if tensor.is_leaf else None),
        ("_backward_hooks", tensor._backward_hooks),
        ("hooks", getattr(tensor, "_post_accumulate_grad_hooks", None)),
    ]


def _held(value: Any) -> list[Any]:
    """What an object holds, as plain values that can be compared; by identity where they cannot."""
    held = [(name, _plain(part)) for name, part in _parts(value)]
    if isinstance(value, torch.Tensor):
        held += [
            ("version", value._version),
            ("memory", value.data_ptr()),
            ("shape", (tuple(value.shape), value.dtype, value.stride())),
            ("requires_grad", value.requires_grad),
            ("bytes", value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()),
        ]
    return held


def _plain(part: Any) -> Any:
    simple = (bool, int, float, str, bytes, type(None))
    return (type(part), part) if type(part) in simple else id(part)
