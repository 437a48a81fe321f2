"""Conditions: what a capture takes as constant besides its arguments, and whether it still holds.

Of each optimizer: its groups, the parameters of each, and all hyperparameters but the learning
rate. Of a loss scaler: its factors. Of the modules: see ModuleForm. Of all of them: their hooks. Of
torch: the modes around the call (see Surroundings). What a capture read of other Python belongs to
its graph: see use_guards.py.

`hold` is called before every iteration and is exact. Torch counts changes of hooks alone, so `hold`
looks at every module and parameter. It does so by lists and functions that `now` made, and calls no
Python for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import is_, itemgetter
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.optimizers import PER_ITERATION
from laneway.jobs.forms.hook_watch import HookWatch
from laneway.jobs.forms.module_form import ModuleForm
from laneway.jobs.forms.surroundings import Surroundings
from laneway.jobs.watch.watched import held

_NOT_LOOKED_AT = ("params", "initial_lr", "param_names", *PER_ITERATION)


class Conditions:
    """Looks at live objects; `now` takes a snapshot to compare with later. Without `flags` the
    training modes and requires_grad are left out: the capture has set its own."""

    def __init__(
        self,
        modules: list[torch.nn.Module] | None = None,
        optimizers: Sequence[Optimizer] = (),
        flags: bool = True,
        inference: bool = False,
    ) -> None:
        self._flags, self._inference = flags, inference
        self._optimizers = tuple(optimizers)
        self._roots = modules or []
        self._others: list[tuple[dict[str, Any], list[str]]] = []

    def add(self, holder: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Also looks at the entries of `holder` that are named in `numbers`."""
        self._others.append((holder, list(numbers)))

    def now(self) -> Snapshot:
        form = ModuleForm(self._roots, self._flags)
        return Snapshot(
            groups=[
                _Numbers(group, [key for key in group if key not in _NOT_LOOKED_AT], "params")
                for group in self._groups()
            ],
            others=[(holder, _Numbers(holder, keys)) for holder, keys in self._others],
            form=form,
            hooks=HookWatch(form.modules, form.parameters, self._optimizers),
            surroundings=Surroundings(self._inference),
        )

    def hold(self, snapshot: Snapshot) -> bool:
        """Whether everything is as in the snapshot."""
        return self.difference(snapshot) is None

    def difference(self, snapshot: Snapshot) -> str | None:
        """What is not as in the snapshot, in words; None when all is."""
        groups = self._groups()
        if len(groups) != len(snapshot.groups):
            return "an optimizer has other groups"
        for group, known in zip(groups, snapshot.groups):
            if (difference := known.difference(group)) is not None:
                return difference
        for holder, known in snapshot.others:
            if (difference := known.difference(holder)) is not None:
                return difference
        if not snapshot.hooks.hold():
            return "hooks were added or removed"
        return snapshot.form.difference() or snapshot.surroundings.difference()

    def _groups(self) -> list[dict[str, Any]]:
        if len(self._optimizers) == 1:
            return self._optimizers[0].param_groups
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """What Conditions saw at one time."""

    groups: list[_Numbers]
    others: list[tuple[dict[str, Any], _Numbers]]
    form: ModuleForm
    hooks: HookWatch
    surroundings: Surroundings


class _Numbers:
    """The values of some keys of a dictionary, and the objects in the list under the key `objects`
    if that is given: a group of an optimizer has its parameters there."""

    def __init__(self, holder: dict[str, Any], keys: list[str], objects: str | None = None) -> None:
        self._keys = keys
        self._read = _reader(keys)
        # Copied because a list may be changed in place.
        self._values = tuple(list(v) if type(v) is list else v for v in self._read(holder))
        self._objects_key = objects
        self._objects = list(holder[objects]) if objects else []

    def difference(self, holder: dict[str, Any]) -> str | None:
        """What is otherwise in the dictionary, in words; None when nothing is."""
        try:
            if self._read(holder) != self._values:
                return self._different_value(holder)
        except KeyError as missing:
            return f"the optimizer or scaler has no {missing} any more"
        if self._objects_key is not None:
            given, known = holder[self._objects_key], self._objects
            # Not by the list's own iterator, which may tell of a read (watched.py).
            if len(given) != len(known) or not all(map(is_, held(given), known)):
                return "a group of the optimizer has other parameters"
        return None

    def _different_value(self, holder: dict[str, Any]) -> str:
        key, before = next(
            (key, before)
            for key, before in zip(self._keys, self._values)
            if holder[key] is not before and holder[key] != before
        )
        return f"{key} of the optimizer or scaler is {holder[key]} and was {before}"


def _reader(keys: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What gives the values of the keys; itemgetter gives no tuple for fewer than two."""
    if len(keys) > 1:
        return itemgetter(*keys)
    return lambda holder: tuple(holder[key] for key in keys)
