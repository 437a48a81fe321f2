"""Hooks of this package that change no result, and that no comparison of hooks counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_MARK = "_laneway_without_effect"

Hook = TypeVar("Hook", bound=Callable[..., Any])


def without_effect(hook: Hook) -> Hook:
    """Marks a hook of this package."""
    setattr(hook, _MARK, True)
    return hook


def counts(hook: Any) -> bool:
    """Whether the hook may change a result."""
    return not hasattr(hook, _MARK)
