"""What step() of an optimizer reads and changes beside groups and state, where its class is not
torch's: attributes of the optimizer, and what its code names.

In a capture a copy of the optimizer runs on fakes (optimizers.py). What is read of the copy is read
of the user's own; what the copy has otherwise after the run is a change of the user's own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import lookups
from laneway.capture.user_lines import is_internal
from laneway.capture.uses import Known, Place
from laneway.capture.watcher import Watcher

# The user's optimizers, each with its copy.
Pairs = Sequence[tuple[Optimizer, Optimizer]]

# What torch gives every optimizer; a scheduler gives it a step() of its own.
OF_EVERY_OPTIMIZER = frozenset({*torch.optim.SGD([torch.zeros(1)], lr=0.1).__dict__, "step"})


def is_foreign(watch: Watcher, of: Any) -> bool:
    """Whether it is an optimizer that the step does not run."""
    return isinstance(of, Optimizer) and not any(
        of is one for pair in watch.optimizers for one in pair
    )


def know(watch: Watcher, pairs: Pairs, first: int) -> bool:
    """Notes what is read and set of these; whether any is not torch's. `first` is the number of the
    next root."""
    for number, (real, copied) in enumerate(pairs):
        if type(real).__module__.startswith("torch."):
            place = Place(None, "root", first + number, type(real).__name__)
            watch.objects[id(real)] = known = Known(real, place, real.__dict__, False)
            known.run = copied.__dict__
    own = [pair for pair in pairs if not type(pair[0]).__module__.startswith("torch.")]
    for real, copied in own:
        place = Place(None, "root", first, type(real).__name__)
        watch.know(real, place)
        known = watch.objects[id(copied)] = watch.objects[id(real)]
        known.run = copied.__dict__
        _know_class(watch, type(real), place)
    return bool(own)


def read_by_name(watch: Watcher, pairs: Pairs) -> None:
    """After the run: of torch's optimizers, which tell nobody, attributes that the user has given
    them and that code names."""
    for real, copied in pairs:
        if not type(real).__module__.startswith("torch."):
            continue
        known = watch.objects[id(real)]
        known.by_torch |= {name for name in copied.__dict__ if name.startswith("_")}
        at = known.place.then("vars")
        for name, before in known.before.items():
            if name in OF_EVERY_OPTIMIZER | known.by_torch or not watch.names.is_named(name):
                continue
            known.seen.add(name)
            words = f"{name!r} of a {type(real).__name__}"
            watch.guard("entry", at, known.entries, name, before, words)
            watch.reach.value(before, at.attribute(name))
            watch.alone = "an optimizer has attributes of the user's"


def _know_class(watch: Watcher, kind: type, place: Place) -> None:
    """step() runs, of the class itself: nobody is told of that."""
    for position, owner in enumerate(kind.__mro__[: kind.__mro__.index(Optimizer)]):
        if not owner.__module__.startswith("torch."):
            at = place.then("class", position, owner.__name__)
            watch.reach.entries(owner, at)
            watch.reach.value(vars(owner).get("step"), at.then("vars").then("entry", "step"))


def is_torchs_own(name: str, depth: int) -> bool:
    """Whether this attribute, or who asks for it so many frames above the caller, is torch's."""
    asks = lookups.asking(sys._getframe(depth + 1))
    return name in OF_EVERY_OPTIMIZER or asks is None or is_internal(asks.f_code)
