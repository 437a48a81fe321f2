"""The parts of the corpus, what each is made of, and by whom it is judged."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import databases
from .layouts import LAYOUTS
from .outcomes import Case, Outcome

_OF_OPERATORS = ("inference", "compile", "gradients")
PARTS = (*_OF_OPERATORS, "modules", "optimizers")


def names(part: str, dtype: str = "float32") -> list[str]:
    """What the part has cases of, in the order of torch's database."""
    wanted = getattr(torch, dtype)
    if part == "modules":
        return [m.name for m in databases.modules() if wanted in m.dtypes]
    if part == "optimizers":
        return [o.optim_cls.__name__ for o in databases.optimizers()]
    listed = [o for o in databases.operators() if wanted in o.dtypes]
    if part == "gradients":
        listed = [o for o in listed if o.supports_autograd]
    return list(dict.fromkeys(o.full_name for o in listed))


def forms(part: str) -> list[str]:
    """The forms of a part's cases."""
    if part in _OF_OPERATORS:
        return list(LAYOUTS)
    from . import modules, optimizers

    return list(modules.FORMS if part == "modules" else optimizers.FORMS)


def forms_for(part: str, name: str) -> tuple[str, ...]:
    """All forms of a part, beginning with one that depends on the name: over all names, each form
    is the first about as often."""
    listed = forms(part)
    first = zlib.crc32(name.encode()) % len(listed)
    return (*listed[first:], *listed[:first])


def cases(
    part: str,
    name: str,
    dtype: str,
    samples: int | None,
    forms: list[str],
    once: bool = False,
) -> Iterator[tuple[Case, Callable[[Any], Outcome]]]:
    """The cases of one name, each with what judges it on a service. `once`: each sample in the
    first of the forms that it allows."""
    home = "operators" if part in _OF_OPERATORS else part
    module = importlib.import_module(f"bench.corpus.{home}")
    done: set[int] = set()
    for case, judge in module.cases(part, name, dtype, samples, forms):
        if once and case.sample in done:
            continue
        done.add(case.sample)
        yield case, judge
