"""HookWatch: whether modules, their parameters and optimizers have the hooks that they had.

Torch numbers all hooks of a process as they are registered (RemovableHandle). While the next
number stays, no hook was added, so only the dictionaries that had hooks are compared, in case one
was removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.modules import module as module_hooks
from torch.optim import Optimizer
from torch.optim import optimizer as optimizer_hooks
from torch.utils.hooks import RemovableHandle

from laneway.capture.hook_marks import counts

_OF_MODULES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_OF_ALL = (
    module_hooks._global_forward_pre_hooks,
    module_hooks._global_forward_hooks,
    module_hooks._global_backward_pre_hooks,
    module_hooks._global_backward_hooks,
    optimizer_hooks._global_optimizer_pre_hooks,
    optimizer_hooks._global_optimizer_post_hooks,
)


def global_hooks() -> Iterator[Any]:
    """Those on all modules and all optimizers."""
    return (hook for hooks in _OF_ALL for hook in list(hooks.values()) if counts(hook))


class HookWatch:
    """Keeps the objects and the hooks alive. Thread-safe."""

    def __init__(
        self,
        modules: list[torch.nn.Module],
        parameters: list[torch.Tensor],
        optimizers: Sequence[Optimizer],
    ) -> None:
        self._places = [(m, name) for m in modules for name in _OF_MODULES]
        self._places += [(p, name) for p in parameters for name in _OF_PARAMETERS]
        self._places += [(optimizer, name) for optimizer in optimizers for name in _OF_OPTIMIZERS]
        # The number that the next hook gets, dictionaries that had hooks then, and copies of them.
        self._seen, self._hooks = self._look()

    def hold(self) -> bool:
        number, held, known = self._seen
        if RemovableHandle.next_id == number and held == known:
            return True
        seen, hooks = self._look()
        if hooks != self._hooks:
            return False
        self._seen = seen
        return True

    def _look(self) -> tuple[tuple[int, list[dict], list[dict]], list[tuple[int, Any]]]:
        """What is seen now, and the hooks with their places."""
        number = RemovableHandle.next_id  # first: what is registered from here on is noticed later
        places = list(self._dictionaries())
        copies = [dict(hooks) for _, hooks in places]
        hooks = [
            (place, hook)
            for (place, _), copy in zip(places, copies)
            for hook in copy.values()
            if counts(hook)
        ]
        return (number, [held for _, held in places], copies), hooks

    def _dictionaries(self) -> Iterator[tuple[int, dict]]:
        """Those that have hooks, with a number for each."""
        for place, (owner, name) in enumerate(self._places):
            hooks = getattr(owner, name)
            if hooks:
                yield place, hooks
        if self._places:
            yield from ((-n, hooks) for n, hooks in enumerate(_OF_ALL, 1) if hooks)
