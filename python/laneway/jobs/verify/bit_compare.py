"""The first value in which what a graph gave differs from what eager execution gives."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

from laneway.capture import opaque
from laneway.capture.uses import PLAIN, is_same, short

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclasses.dataclass(frozen=True)
class Difference:
    """`words` say all of it; the rest is for programs, None where it has no meaning."""

    words: str
    name: str
    index: tuple[int, ...] | None = None
    given: Any = None
    expected: Any = None


def named_leaves(result: Any, name: str) -> dict[str, Any]:
    """The tensors and other values in a result, each by where it is. Tensors are copies, which
    later writes do not reach."""
    found: dict[str, Any] = {}
    for path, leaf in pytree.tree_leaves_with_path(result):
        at = name + pytree.keystr(path)
        if isinstance(leaf, torch.Tensor) or opaque.is_whole(leaf):
            found[at] = _own(leaf)
            continue
        try:
            parts = opaque.take_apart(leaf)[1]
        except opaque.NotCopyable:
            parts = []
        found.update({f"{at}, tensor {n}": _own(part) for n, part in enumerate(parts)})
    return found


def first_difference(given: dict[str, Any], expected: dict[str, Any]) -> Difference | None:
    """The first of the graph's values that is not eager's, bit for bit; NaNs are all alike."""
    for name in [*expected, *(name for name in given if name not in expected)]:
        if name not in given or name not in expected:
            where = "eager execution" if name in expected else "the graph"
            return Difference(f"{name} is there in {where} alone", name)
        found = _difference(name, given[name], expected[name])
        if found is not None:
            return found
    return None


def _own(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _difference(name: str, given: Any, expected: Any) -> Difference | None:
    if isinstance(given, torch.Tensor) and isinstance(expected, torch.Tensor):
        return _tensor_difference(name, given, expected)
    if is_same(given, expected) or not (type(given) in PLAIN or type(expected) in PLAIN):
        return None
    words = f"{name}: the graph gives {short(given)}, eager execution {short(expected)}"
    return Difference(words, name, None, given, expected)


def _tensor_difference(name: str, given: torch.Tensor, expected: torch.Tensor) -> Difference | None:
    for what, a, b in (
        ("dtype", given.dtype, expected.dtype),
        ("shape", list(given.shape), list(expected.shape)),
    ):
        if a != b:
            words = f"the {what} of {name}: the graph gives {a}, eager execution {b}"
            return Difference(words, name, None, a, b)
    differ = _differing(given, expected)
    count = int(differ.sum())
    if count == 0:
        return None
    index = tuple(differ.nonzero()[0].tolist())
    a, b = given[index].item(), expected[index].item()
    at = f" at {list(index)}" if index else ""
    words = f"{name}{at}: the graph gives {a!r}, eager execution {b!r}"
    if given.numel() > 1:
        words += f" ({count} of {given.numel()} values differ)"
    return Difference(words, name, index, a, b)


def _differing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where the bits of two tensors of one dtype and shape differ."""
    if a.is_complex():
        parts = [torch.view_as_real(part.detach().resolve_conj().contiguous()) for part in (a, b)]
        return _differing(*parts).any(-1)
    a, b = (part.detach().resolve_neg().contiguous() for part in (a, b))
    if not a.is_floating_point():
        return a != b
    word = _WORDS[a.element_size()]
    return (a.view(word) != b.view(word)) & ~(a.isnan() & b.isnan())
