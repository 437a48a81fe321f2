"""Replaces a module's parameters and buffers by fake tensors during a capture.

Unlike torch.func.functional_call the module keeps its identity, so that a user's closure can call
it, list its parameters and read their gradients, and buffers that a step assigns anew are noticed.
Afterwards the modules' dictionaries are as before, also after an exception: a hook that forward
registers, or an attribute that it sets, is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

# What torch gives every module, and changes in place: its tensors, children, hooks.
_OF_MODULES = frozenset(torch.nn.Module().__dict__)


@contextlib.contextmanager
def swapped(
    modules: list[torch.nn.Module],
    replacement: dict[int, torch.Tensor],
    optimizers: Sequence[Optimizer] = (),
) -> Iterator[None]:
    """Inside, every tensor t of the modules is replacement[id(t)] where there is one. Afterwards
    the modules, and the hooks of the optimizers, are as before."""
    every = {id(m): m for root in modules for m in root.modules()}.values()
    attributes = [(m.__dict__, dict(m.__dict__)) for m in every]
    held = [value for _, values in attributes for value in _held(values)]
    held += [value for optimizer in optimizers for value in _held(optimizer.__dict__)]
    contents = [(v, dict(v) if isinstance(v, dict) else set(v)) for v in held]
    try:
        for module in every:
            _swap(module, replacement)
        yield
    finally:
        for own, before in (*attributes, *contents):
            own.clear()
            own.update(before)


def _held(attributes: dict[str, Any]) -> Iterator[dict | set]:
    """What torch itself keeps in containers among the attributes of a module or optimizer."""
    for name, value in attributes.items():
        of_torch = name in _OF_MODULES or name.startswith("_optimizer_")
        if of_torch and isinstance(value, (dict, set)):
            yield value


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
