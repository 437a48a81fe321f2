"""Replaces a module's parameters and buffers by fake tensors during a capture.

Unlike torch.func.functional_call the module keeps its identity, so that a user's closure can call
it, list its parameters and read their gradients, and buffers that a step assigns anew are noticed.
Afterwards the modules' dictionaries are as before, also after an exception.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def swapped(modules: list[torch.nn.Module], replacement: dict[int, torch.Tensor]) -> Iterator[None]:
    """Inside, every tensor t of the modules is replacement[id(t)] where there is one."""
    every = {id(m): m for root in modules for m in root.modules()}.values()
    saved = [
        (m, dict(m.__dict__), dict(m._parameters), dict(m._buffers), dict(m._modules))
        for m in every
    ]
    try:
        for module in every:
            _swap(module, replacement)
        yield
    finally:
        for module, attributes, parameters, buffers, children in saved:
            module.__dict__.clear()
            module.__dict__.update(attributes)
            for holder, content in (
                (module._parameters, parameters),
                (module._buffers, buffers),
                (module._modules, children),
            ):
                holder.clear()
                holder.update(content)


def _swap(module: torch.nn.Module, replacement: dict[int, torch.Tensor]) -> None:
    for holder in (module._parameters, module._buffers):
        for name, tensor in holder.items():
            holder[name] = replacement.get(id(tensor), tensor)
    for name, attribute in list(module.__dict__.items()):
        if name not in ("_parameters", "_buffers", "_modules"):
            module.__dict__[name] = _replaced(attribute, replacement)


def _replaced(attribute: Any, replacement: dict[int, torch.Tensor]) -> Any:
    """Recurrent layers keep their weights in a list as well; others in plain attributes."""
    if isinstance(attribute, torch.Tensor):
        return replacement.get(id(attribute), attribute)
    if type(attribute) in (list, tuple) and any(id(e) in replacement for e in attribute):
        return type(attribute)(replacement.get(id(e), e) for e in attribute)
    if type(attribute) is dict and any(id(e) in replacement for e in attribute.values()):
        return {key: replacement.get(id(e), e) for key, e in attribute.items()}
    return attribute
