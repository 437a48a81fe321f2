"""References: who else holds the tensors of a step's models, outside of the containers that are
watched.

A helper that keeps list(model.parameters()) reads tensors of which no container tells. A variable
of a loop or a list of parameters that an optimizer was made with is harmless; what an object keeps
in an attribute is there to be used. The model is brought up to date after each iteration for it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.jobs.watch.watched import quietly

# Packages whose objects use a model in ways that are known.
_KNOWN = ("accelerate", "laneway", "lightning", "pytorch_lightning", "torch", "transformers")
_CONTAINERS = (list, tuple, set, dict)


class References:
    """To the parameters of a step's models, which it holds until done()."""

    def __init__(self, modules: Sequence[torch.nn.Module], optimizers: Sequence[Optimizer]) -> None:
        self._modules, self._optimizers = modules, optimizers
        self.holders: list[str] = []  # the classes of the objects that keep some
        with quietly():
            self._parameters = list({id(p): p for m in modules for p in m.parameters()}.values())
            self._counts = self._expected()
            self.look()

    def look(self) -> None:
        """Looks for holders, where there are more references than before."""
        counts = self._now()
        if any(now > before for now, before in zip(counts, self._counts)):
            found = {type(owner).__name__ for owner in self._owners()}
            self.holders = sorted({*self.holders, *found})

    def settle(self) -> None:
        """What there is now is known."""
        self._counts = self._now()

    def done(self) -> None:
        """Looks no more."""
        self._parameters = []

    def _now(self) -> list[int]:
        return [sys.getrefcount(p) for p in self._parameters]

    def _expected(self) -> list[int]:
        """How many references modules, optimizers and this object are."""
        # In this object's list, in the loop's variable, and as the argument of getrefcount().
        counts = dict.fromkeys(map(id, self._parameters), 3)
        for container in self._known_containers():
            for part in dict.values(container) if isinstance(container, dict) else container:
                if id(part) in counts:
                    counts[id(part)] += 1
        for optimizer in self._optimizers:
            for parameter in optimizer.state:
                if id(parameter) in counts:
                    counts[id(parameter)] += 1
        return list(counts.values())

    def _known_containers(self) -> Iterator[Any]:
        for module in {id(m): m for root in self._modules for m in root.modules()}.values():
            if isinstance(module._parameters, dict):  # not of a scripted part
                yield module._parameters
            yield from (v for v in vars(module).values() if isinstance(v, (list, tuple)))
        for optimizer in self._optimizers:
            yield from (group["params"] for group in optimizer.param_groups)

    def _owners(self) -> list[Any]:
        """Objects that keep a parameter in an attribute, or in a container there."""
        known = {id(container) for container in self._known_containers()}
        known |= {id(self._parameters), *(id(optimizer.state) for optimizer in self._optimizers)}
        held = [h for h in gc.get_referrers(*self._parameters) if id(h) not in known]
        containers = [h for h in held if type(h) in _CONTAINERS]
        owners = [h for h in held if type(h) not in _CONTAINERS]
        above = gc.get_referrers(*containers) if containers else []
        owners += [h for h in above if type(h) not in _CONTAINERS]
        # Attributes may lie in a dictionary of their own.
        attributes = [h for h in (*containers, *above) if type(h) is dict and "__name__" not in h]
        for owner in gc.get_referrers(*attributes) if attributes else []:
            if any(getattr(owner, "__dict__", None) is each for each in attributes):
                owners.append(owner)
        return [owner for owner in owners if _keeps(owner)]


def _keeps(owner: Any) -> bool:
    kind = type(owner)
    if isinstance(owner, (torch.nn.Module, Optimizer, torch.Tensor)) or owner is None:
        return False
    is_builtin = kind.__module__ in ("builtins", "types", "weakref", "collections", "itertools")
    return not is_builtin and kind.__module__.partition(".")[0] not in _KNOWN
