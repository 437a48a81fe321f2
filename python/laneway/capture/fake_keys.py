"""Dictionaries of the user's whose keys are parameters, for the functions of a step: an optimizer
for each, its name, its average. A hook gets the fake of a parameter, and asks them by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from laneway.capture.outer_names import outer_names


@contextlib.contextmanager
def keyed_by_fakes(functions: Iterable[Any], fakes: dict[int, torch.Tensor]) -> Iterator[None]:
    """Inside, dictionaries in variables that the functions name have the entry of a parameter under
    its fake too. `fakes` are by the id of the parameter."""
    held = [value for _, value in outer_names(functions).held() if type(value) is dict]
    added = [
        (entries, fakes[id(key)], entries[key])
        for entries in held
        for key in entries
        if isinstance(key, torch.Tensor) and id(key) in fakes
    ]
    for entries, fake, value in added:
        entries[fake] = value
    try:
        yield
    finally:
        for entries, fake, _ in added:
            entries.pop(fake, None)
