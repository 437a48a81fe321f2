"""Compares the final states of two trainings bit by bit and names the tensors that differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch

_LARGE_BYTES = 1 << 20


def training_state(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Parameters, buffers and optimizer state of {"model", "optimizer"} (torch's own layouts), by a
    name that identifies each."""
    named = dict(_tensors(state["model"], "model"))
    return named | dict(_tensors(state["optimizer"]["state"], "optimizer"))


def digested(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same, with SHA-256 of its bytes in place of each tensor of more than a MiB, for states
    that are sent between processes."""
    return {
        name: _digest(tensor) if tensor.nbytes > _LARGE_BYTES else tensor
        for name, tensor in state.items()
    }


def differences(ours: dict[str, torch.Tensor], plain: dict[str, torch.Tensor]) -> list[str]:
    """A sentence for each tensor that is not the same to the last bit; empty when all are."""
    found = []
    for name in sorted(ours.keys() | plain.keys()):
        if name not in ours or name not in plain:
            found.append(f"{name} exists only in {'Laneway' if name in ours else 'PyTorch'}")
            continue
        a, b = ours[name].detach(), plain[name].detach()
        if a.dtype != b.dtype or a.shape != b.shape:
            found.append(f"{name} is {a.dtype} {list(a.shape)}, PyTorch has {b.dtype} {[*b.shape]}")
        elif not torch.equal(_bits(a), _bits(b)):
            apart = (a.double() - b.double()).abs()
            count = int((_bits(a) != _bits(b)).reshape(a.numel(), -1).any(1).sum())
            found.append(
                f"{name} differs in {count} of {a.numel()} elements, by up to {apart.max():.3g}"
            )
    return found


def _tensors(state: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(state, torch.Tensor):
        yield name, state
    elif isinstance(state, dict):
        for key, value in state.items():
            yield from _tensors(value, f"{name} {key}")


def _digest(tensor: torch.Tensor) -> torch.Tensor:
    digest = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
    digest.update(_bits(tensor.detach()).numpy())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu().contiguous().flatten().view(torch.uint8)
