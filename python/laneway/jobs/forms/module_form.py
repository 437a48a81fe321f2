"""ModuleForm: modules as a capture saw them, and whether they are so still.

Of every module below the roots, the form says whether it is in training mode and which modules and
parameters it consists of, and which buffers it has; of every parameter, whether it requires a
gradient. It says nothing of the values of parameters and buffers, of which a job has its own, nor
of plain attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any

import torch

from laneway.jobs.calls.generated import all_of

_training_of = itemgetter("training")
_training_of_module = attrgetter("training")
_is_trained = attrgetter("requires_grad")
_entry = dict.__getitem__  # tells nobody of a read (watched.py)


class ModuleForm:
    """Keeps the modules and parameters alive. Immutable. Without `flags` it says nothing of the
    training mode and of requires_grad."""

    def __init__(self, roots: list[torch.nn.Module], flags: bool) -> None:
        self.modules = list({id(m): m for root in roots for m in root.modules()}.values())
        self.parameters = list({id(p): p for root in roots for p in root.parameters()}.values())
        # A module has its flag in its dictionary, unless its class computes it.
        modules, parameters = (self.modules, self.parameters) if flags else ([], [])
        attributes = [m.__dict__ for m in modules if _is_plain(m)]
        self._training = [entries for entries in attributes if entries["training"]]
        self._evaluating = [entries for entries in attributes if not entries["training"]]
        self._computing = [m for m in modules if not _is_plain(m)]
        self._computed = [*map(_training_of_module, self._computing)]
        self._trained = [p for p in parameters if p.requires_grad]
        self._frozen = [p for p in parameters if not p.requires_grad]
        children = [m._modules for m in self.modules]
        holders = [m._parameters for m in self.modules]
        self._empty = [holder for holder in children + holders if not holder]
        self._children = [holder for holder in children if holder]
        self._known_children = [dict(holder) for holder in self._children]
        buffers = [m._buffers for m in self.modules]
        self._empty += [holder for holder in buffers if not holder]
        self._buffers = [holder for holder in buffers if holder]
        named = [(holder, *entry) for holder in self._buffers for entry in dict.items(holder)]
        self._buffer_count = len(named)
        self._are_buffers_set = _all_entries(
            (holder, name, None, "is" if tensor is None else "is not")
            for holder, name, tensor in named
        )
        # Parameters are compared by identity alone: `==` of two tensors would run an operator.
        self._holders = [holder for holder in holders if holder]
        entries = [(holder, *entry) for holder in self._holders for entry in holder.items()]
        self._parameter_count = len(entries)
        self._are_parameters_there = _all_entries((*entry, "is") for entry in entries)

    def difference(self) -> str | None:
        """What is otherwise now, in words; None when nothing is."""
        if (
            not all(map(_training_of, self._training))
            or any(map(_training_of, self._evaluating))
            or (self._computing and self._computed != [*map(_training_of_module, self._computing)])
        ):
            return "modules were put into another mode by train() or eval()"
        if not self._has_parts():
            return "modules or parameters of the model were added, replaced or removed"
        if not self._has_buffers():
            return "buffers of the model were added or removed"
        if not all(map(_is_trained, self._trained)) or any(map(_is_trained, self._frozen)):
            return "other parameters require a gradient"
        return None

    def _has_parts(self) -> bool:
        """Whether the modules consist of the same modules and parameters."""
        if any(self._empty) or self._children != self._known_children:
            return False
        try:
            if not self._are_parameters_there():
                return False
        except KeyError:
            return False
        return sum(map(len, self._holders)) == self._parameter_count  # and no others

    def _has_buffers(self) -> bool:
        """Whether the modules have the buffers that they had, whatever tensors these are."""
        try:
            if not self._are_buffers_set():
                return False
        except KeyError:
            return False
        return sum(map(len, self._buffers)) == self._buffer_count  # and no others


def _all_entries(entries: Iterable[tuple[dict[str, Any], str, Any, str]]) -> Callable[[], bool]:
    """Whether in each dictionary what is under the key is, or is not, the object. Raises KeyError
    where there is nothing."""
    given: dict[str, Any] = {"_entry": _entry}
    names: dict[int, str] = {}
    terms = []
    for number, (holder, key, value, how) in enumerate(entries):
        name = names.setdefault(id(holder), f"h{len(names)}")
        given |= {name: holder, f"v{number}": value}
        now = f"{name}[{key!r}]" if type(holder) is dict else f"_entry({name}, {key!r})"
        terms.append(f"{now} {how} v{number}")
    return all_of(terms, given)


def _is_plain(module: torch.nn.Module) -> bool:
    return "training" in module.__dict__ and not hasattr(type(module), "training")
