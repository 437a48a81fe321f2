"""StaleWeights: tells of reads of a model whose weights live in a service."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch

from laneway.capture.fake_job import is_captured
from laneway.capture.hook_marks import without_effect
from laneway.jobs.watch.watched import is_quiet


@without_effect
class StaleWeights:
    """A hook that warns once when the model of job `name` is called, or its state_dict() is, while
    its weights live in the service. A copy of the model, by copy or pickle, has a hook without
    effect instead, which is loaded where Laneway is not installed too."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        self._name = name
        self.current = False  # whether sync_to() has copied what the last iteration left
        self._handles = [
            model.register_forward_pre_hook(self),
            model.register_state_dict_pre_hook(self),
        ]

    def remove(self) -> None:
        """Warns no more."""
        for handle in self._handles:
            handle.remove()

    def __call__(self, module: torch.nn.Module, *args: Any) -> None:
        if self.current or is_quiet() or is_captured(module):
            return
        self.remove()
        warnings.warn(
            f"this model is trained by job {self._name!r}: its own weights are those of before; "
            "use step.sync_to(model) first, laneway.inference(step) for the current ones, or make "
            'the step with sync="on_read"',
            stacklevel=3,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (logging.getLogger("laneway"), "debug")
