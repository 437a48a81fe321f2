"""Training state as something that two runs can be compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch


def tensors(state: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in nested dicts, lists and tuples, with its path, in a fixed order."""
    if isinstance(state, torch.Tensor):
        yield path, state
    elif isinstance(state, dict):
        for key in sorted(state, key=str):
            yield from tensors(state[key], f"{path}.{key}" if path else str(key))
    elif isinstance(state, list | tuple):
        for index, item in enumerate(state):
            yield from tensors(item, f"{path}[{index}]")


def training_state(model_state: dict, optimizer_state: dict) -> dict[str, torch.Tensor]:
    """Parameters, buffers and optimizer state by name. Hyperparameters do not count: an optimizer
    may hold a rate as a number or as a tensor."""
    found = dict(tensors(model_state, "model"))
    return found | dict(tensors(optimizer_state["state"], "optimizer"))


def first_difference(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> str | None:
    """None when both hold the same names with the same bits; else a sentence on the first that
    differs."""
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            return f"{name} is only in the {'first' if name in ours else 'second'} state"
        a, b = ours[name].detach().cpu(), theirs[name].detach().cpu()
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{name} is {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
        if bits(a) != bits(b):
            gap = (a.double() - b.double()).abs()
            return f"{name} differs in {int((gap != 0).sum())} of {a.numel()} elements"
    return None


def digests(state: dict[str, torch.Tensor]) -> dict[str, str]:
    """For each tensor a hash of its name, type, shape and bits."""
    found = {}
    for name in sorted(state):
        tensor = state[name].detach().cpu()
        h = hashlib.sha256(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        h.update(bits(tensor))
        found[name] = h.hexdigest()
    return found


def digest(state: dict[str, torch.Tensor]) -> str:
    """One hash of names, types, shapes and bits."""
    return hashlib.sha256("".join(digests(state).values()).encode()).hexdigest()


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor's elements, in order."""
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
