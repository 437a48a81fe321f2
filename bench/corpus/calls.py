"""An operator's call as a function of its tensors, and copies of what it is called with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclasses.dataclass(frozen=True)
class Place:
    """Stands where the tensor of that number stood."""

    number: int


class Call(torch.nn.Module):
    """`operator(*args, **kwargs)` as a module; forward takes the tensors."""

    def __init__(self, operator: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.tensors: list[torch.Tensor] = []
        self._operator = operator
        self._args = self._emptied(args)
        self._kwargs = self._emptied(kwargs)

    def filled(self, tensors: tuple[torch.Tensor, ...]) -> tuple[tuple, dict[str, Any]]:
        """The arguments with these tensors."""
        return _filled(self._args, tensors), _filled(self._kwargs, tensors)

    def forward(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self.filled(tensors)
        return self._operator(*args, **kwargs)

    def _emptied(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            for number, known in enumerate(self.tensors):
                if known is value:
                    return Place(number)
            self.tensors.append(value)
            return Place(len(self.tensors) - 1)
        if type(value) in (list, tuple):
            return type(value)([self._emptied(element) for element in value])
        if type(value) is dict:
            return {name: self._emptied(element) for name, element in value.items()}
        return value


def _filled(value: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    if isinstance(value, Place):
        return tensors[value.number]
    if type(value) is list:
        return [_filled(element, tensors) for element in value]
    if type(value) is tuple:
        return tuple([_filled(element, tensors) for element in value])
    if type(value) is dict:
        return {name: _filled(element, tensors) for name, element in value.items()}
    return value


def replicas(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies with the same strides, offsets and shared memory, that require no gradient."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies = []
    for tensor in tensors:
        plain = tensor.detach()
        if plain.layout != torch.strided:
            copies.append(plain.clone())
            continue
        storage = plain.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()
        copy = torch.empty(0, dtype=plain.dtype)
        offset, shape, stride = plain.storage_offset(), plain.shape, plain.stride()
        copy.set_(storages[storage._cdata], offset, shape, stride)
        torch._C._set_conj(copy, plain.is_conj())
        torch._C._set_neg(copy, plain.is_neg())
        copies.append(copy)
    return copies


def other_values(first: list[torch.Tensor], second: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors laid out as `first` with the values of `second` where those are floating or complex
    and alike; `first` itself where they are not."""
    if len(first) != len(second):
        return first
    made = replicas(first)
    for copy, old, new in zip(made, first, second):
        inexact = copy.is_floating_point() or copy.is_complex()
        if not inexact or copy.layout != torch.strided:
            continue
        if new.shape != old.shape or new.dtype != old.dtype:
            return first
        for size, stride in zip(copy.shape, copy.stride()):
            if size > 1 and stride == 0:
                break
        else:
            copy.copy_(new.detach())
    return made


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Tags(torch.utils._python_dispatch.TorchDispatchMode):
    """Whether an operator inside is tagged as one whose results' shapes, or answer, depend on
    data, and whether one is that draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.dynamic = self.draws = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tags = getattr(func, "tags", ())
        if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
            self.dynamic = True
        if torch.Tag.nondeterministic_seeded in tags:
            self.draws = True
        return func(*args, **(kwargs or {}))
