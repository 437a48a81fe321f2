"""The models and the optimizers of a step in the form in which the user gave them: one, a list or a
tuple of several, or None."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def is_list(given: Any) -> bool:
    """Whether the user gave a list or a tuple."""
    return isinstance(given, (list, tuple))


def all_of(given: Any) -> list[Any]:
    """What was given, in order: one element where it was no list, none where it was None."""
    if given is None:
        return []
    return list(given) if is_list(given) else [given]


def in_form_of(given: Any, parts: Iterable[Any]) -> Any:
    """`parts`, of which there is one for each element of all_of(given), in the form of `given`: a
    list for a list or a tuple, the only part for one object, None for None."""
    every = list(parts)
    if is_list(given):
        return every
    return every[0] if every else None


def path_of(given: Any, kind: str, number: int) -> tuple:
    """The first part of the paths of slots that belong to element `number`: (kind,), or
    (kind, number) of a list."""
    return (kind, number) if is_list(given) else (kind,)


def are_same(some: Any, others: Any) -> bool:
    """Whether both are the same objects, in the same order."""
    return [*map(id, all_of(some))] == [*map(id, all_of(others))]
