"""Dictionaries of the user's whose keys are parameters, in a step: an optimizer for each, its name,
its average. A hook gets the fake of a parameter, and asks them by it."""

from __future__ import annotations

from typing import Any

import torch


class FakeKeys:
    """One per run of a step. `fakes` are by the id of the parameter."""

    def __init__(self, fakes: dict[int, torch.Tensor]) -> None:
        self._fakes = fakes
        self._added: list[tuple[dict[Any, Any], Any, torch.Tensor]] = []

    def add(self, entries: dict[Any, Any]) -> None:
        """The entry of a parameter is there under its fake too, until remove()."""
        keys = [key for key in entries if isinstance(key, torch.Tensor) and id(key) in self._fakes]
        for key in keys:
            fake = self._fakes[id(key)]
            if fake is not key:
                entries[fake] = entries[key]
                self._added.append((entries, key, fake))

    def remove(self) -> None:
        """What the step put in the place of such an entry is the parameter's."""
        for entries, key, fake in reversed(self._added):
            if fake in entries:
                entries[key] = entries.pop(fake)
        self._added.clear()
