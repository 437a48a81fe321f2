"""The hooks that a step may call, and those that it installs: of its modules, their parameters, and
its optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.use_reach import Reach
from laneway.capture.uses import Effect, Place, attributes_of, content_of

_CALLED = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
# Of what torch gives every module: its hooks and children. Its tensors are looked after elsewhere.
_INSTALLED = [
    name
    for name, value in torch.nn.Module().__dict__.items()
    if isinstance(value, dict) and name not in ("_parameters", "_buffers")
]


class Hooks:
    """One per watch."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._before: list[tuple[dict[Any, Any], Place, dict[Any, Any], str]] = []

    def of_module(self, module: torch.nn.Module, place: Place) -> None:
        """The hooks of one of the step's own modules."""
        entries, at = attributes_of(module), place.then("vars")
        for name in _CALLED:
            self._may_run(entries.get(name), at.then("entry", name))
        for name in _INSTALLED:
            held = entries.get(name)
            if isinstance(held, dict):
                words = f"{name!r} of {place.words or type(module).__name__}"
                self._before.append((held, at.then("entry", name), content_of(held), words))
        for name, parameter in dict.items(entries["_parameters"]):
            where = at.then("entry", "_parameters").attribute(name)
            for kind in _OF_TENSORS:
                self._may_run(getattr(parameter, kind, None), where.then("own", kind))

    def of_optimizers(self, optimizers: Sequence[Optimizer], first: int) -> bool:
        """The hooks of the step's optimizers; whether there are any. `first` is the number of the
        next root."""
        found = 0
        for optimizer in optimizers:
            for name, hooks in optimizer.__dict__.items():
                if name.startswith("_optimizer_") and isinstance(hooks, dict):
                    place = Place(None, "root", first, "an optimizer")
                    found += self._may_run(hooks, place)
                    words = f"{name!r} of a {type(optimizer).__name__}"
                    self._before.append((hooks, place, content_of(hooks), words))
        return found > 0

    def changes(self) -> Iterator[Effect]:
        """What the run installed or removed."""
        for held, place, before, words in self._before:
            now = content_of(held)
            is_same = len(now) == len(before) and all(
                key in before and before[key] is value for key, value in now.items()
            )
            if not is_same:
                yield Effect("content", place, held, None, before, now, words, True)

    def _may_run(self, hooks: Any, place: Place) -> int:
        counting = [
            (key, hook)
            for key, hook in list((hooks or {}).items())
            if not hasattr(hook, "_laneway_without_effect")
        ]
        for key, hook in counting:
            self._reach.value(hook, place.then("entry", key, "a hook"))
        return len(counting)
