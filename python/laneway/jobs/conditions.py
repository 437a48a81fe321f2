"""Conditions: what a capture takes as constant besides its arguments, and whether it still holds.

Of the optimizer: every hyperparameter but the learning rate, and how many parameters each group
has. Of a loss scaler: its factors. Of the modules: which are in training mode, and which parameters
require a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.optimizers import PER_ITERATION

_NOT_LOOKED_AT = ("params", "initial_lr", "param_names", *PER_ITERATION)

_MISSING = object()

# Hyperparameters of each group with its number of parameters (and a loss scaler's numbers, as a
# group of none); training modes; requires_grad flags.
Snapshot = tuple[list[tuple[int, list[tuple[str, Any]]]], list[bool], list[bool]]


class Conditions:
    """Looks at live objects; `now` takes a snapshot to compare with later."""

    def __init__(
        self, modules: list[torch.nn.Module] | None = None, optimizer: Optimizer | None = None
    ) -> None:
        self._optimizer = optimizer
        self._modules = [m for root in modules or [] for m in root.modules()]
        self._parameters = [p for root in modules or [] for p in root.parameters()]
        self._others: list[tuple[int, dict[str, Any], dict[str, Any] | None]] = []

    def add(self, holder: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Also looks at the entries of `holder` that are named in `numbers`."""
        self._others.append((0, holder, numbers))

    def now(self) -> Snapshot:
        return (
            [
                (count, [(key, group[key]) for key in (only or group) if key not in _NOT_LOOKED_AT])
                for count, group, only in self._groups()
            ],
            [module.training for module in self._modules],
            [parameter.requires_grad for parameter in self._parameters],
        )

    def hold(self, snapshot: Snapshot) -> bool:
        """Whether everything is as in the snapshot; asked before every iteration."""
        groups, training, trained = snapshot
        current = self._groups()
        if len(current) != len(groups):
            return False
        for (count, group, _), (known_count, known) in zip(current, groups):
            if count != known_count:
                return False
            for key, value in known:
                if group.get(key, _MISSING) is not value and group.get(key, _MISSING) != value:
                    return False
        return training == [m.training for m in self._modules] and trained == [
            p.requires_grad for p in self._parameters
        ]

    def difference(self, snapshot: Snapshot) -> str | None:
        """What is not as in the snapshot, in words; None when all is."""
        if self.hold(snapshot):
            return None
        groups, training, trained = self.now()
        for (count, group), (known_count, known) in zip(groups, snapshot[0]):
            if count != known_count:
                return "a group of the optimizer has other parameters"
            for (key, now), (_, before) in zip(group, known):
                if now is not before and now != before:
                    return f"{key} of the optimizer or scaler is {now} and was {before}"
        if training != snapshot[1]:
            return "modules were put into another mode by train() or eval()"
        if trained != snapshot[2]:
            return "other parameters require a gradient"
        return "the optimizer has other groups"

    def _groups(self) -> list[tuple[int, dict[str, Any], dict[str, Any] | None]]:
        """Number of parameters, the entries, and which of them count (None: all)."""
        if self._optimizer is None:
            return []
        groups = self._optimizer.param_groups
        return [(len(group["params"]), group, None) for group in groups] + self._others
