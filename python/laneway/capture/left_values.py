"""What a step leaves in attributes of modules: attention maps, auxiliary losses, the last features.

A tensor or number of the step that a module has as an attribute afterwards is one more output of
the graph, and each call sets the attribute, as eager execution does. A capture itself sets none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from laneway.capture.constants import Constants
from laneway.errors import CaptureError

_SYMBOLS = (torch.SymFloat, torch.SymInt, torch.SymBool)
_OF_TORCH = frozenset(torch.nn.Module().__dict__)


@dataclasses.dataclass(frozen=True)
class Left:
    """The attribute `name` of `module`, and what the step set it to."""

    module: torch.nn.Module
    name: str
    value: Any

    def put(self, value: Any) -> None:
        """Sets the attribute."""
        self.module.__dict__[self.name] = value


class LeftValues:
    """Made before a run of the step, on modules with fakes in them."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        every = {id(m): m for root in modules for m in root.modules()}.values()
        self._before = [(module, dict(module.__dict__)) for module in every]

    def found(self, own: Collection[torch.Tensor], constants: Constants) -> list[Left]:
        """The attributes that the step set to what it computed; `own` are the fakes of the job's
        tensors, which are no such. Raises CaptureError for one that the next call would read."""
        ids = {id(tensor) for tensor in own}
        found = []
        for module, before in self._before:
            for name, value in module.__dict__.items():
                old = before.get(name)
                if value is old or name in _OF_TORCH or not _is_of_step(value, ids):
                    continue
                if any(
                    isinstance(t, torch.Tensor) and constants.find(t) is not None
                    for t in pytree.tree_leaves(old)
                ):
                    raise CaptureError(
                        f"the step reads {name!r} of a {type(module).__name__} and sets it to what "
                        "it computes, which the next call would read: a graph has the value of the "
                        "capture",
                        remedy="register it as a buffer of the module and write into it, or pass "
                        "it to the step and return it",
                    )
                found.append(Left(module, name, value))
        return found


def _is_of_step(value: Any, own: Collection[int]) -> bool:
    leaves = pytree.tree_leaves(value)
    return any(isinstance(leaf, (FakeTensor, *_SYMBOLS)) for leaf in leaves) and not any(
        id(leaf) in own for leaf in leaves
    )
