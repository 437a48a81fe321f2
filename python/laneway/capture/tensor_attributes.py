"""Attributes that users give tensors: `p.lr_scale`, `p.main_grad`, `x.tag`.

In a capture a fake stands for a tensor of the job or of the call's arguments. It gives the tensor's
attributes when the step asks for them, and what the step sets is found in it afterwards. Attributes
of an argument are read of the next call's argument, too (jobs/calls/graph_call.py).
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture import lookups
from laneway.capture.user_lines import is_internal
from laneway.capture.uses import MISSING, Effect, Place, attributes_of, content_of, is_same
from laneway.capture.watcher import Watcher
from laneway.native.process import SharedChange

_capturing = threading.local()  # .attributes: those of this thread's capture
# What torch and the package keep in tensors.
_OWN = ("__", "_laneway_", "_is_param", "_is_buffer", "_dynamo", "_item_memo", "_nonzero_memo")
_OWN += ("_unique_", "_nested_int_memo", "_typed_storage", "_backward_hooks", "_debug_trace")


class _Tensor:
    """A fake and whose place it takes. `given` are the attributes that it got from that one,
    `before` the fake's own. `position`: which argument it is."""

    def __init__(self, fake: torch.Tensor, of: torch.Tensor, position: int | None) -> None:
        self.fake, self.of, self.position = weakref.ref(fake), of, position
        self.before, self.given = dict(fake.__dict__), dict[str, Any]()
        self.read: set[str] = set()


class TensorAttributes:
    """One per run of a step."""

    def __init__(
        self,
        own: Iterable[tuple[torch.Tensor, torch.Tensor]] = (),
        arguments: Iterable[tuple[torch.Tensor, weakref.ref[torch.Tensor]]] = (),
    ) -> None:
        """`own` are tensors of the job and `arguments` those of the call, each with its fake."""
        self._of = {id(fake): _Tensor(fake, of, None) for of, fake in own}
        for position, (of, reference) in enumerate(arguments):
            fake = reference()
            if fake is not None:
                self._of[id(fake)] = _Tensor(fake, of, position)
        self._watch: Watcher | None = None
        self._in_places: set[int] = set()  # ids of what is in the places of the job's tensors
        # Of arguments: the position, the name, the value.
        self.asked: list[tuple[int, str, Any]] = []
        self._outer: dict[int, tuple[torch.Tensor, Place, dict[str, Any], Any]] = {}

    @contextlib.contextmanager
    def told_to(self, watch: Watcher) -> Iterator[None]:
        """Inside, fakes of this thread's capture have the attributes of their tensors."""
        self._watch, self._in_places = watch, set(map(id, watch.fakes.values()))
        with _serving:
            around, _capturing.attributes = getattr(_capturing, "attributes", None), self
            try:
                yield
            finally:
                _capturing.attributes = around

    def add_outer(self, tensor: torch.Tensor, place: Place) -> None:
        """A tensor that is neither the job's nor the call's."""
        if id(tensor) in self._in_places:
            return
        entries = attributes_of(tensor)
        self._outer[id(tensor)] = tensor, place, content_of(entries), _gradient(tensor)
        self._watch.names.add(entries, place.then("vars"), place.words, tensor)

    def place_of(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Place] | None:
        """The tensor that this one is, or whose memory it shows (`t.data`), and where that is; None
        when nobody was told of it."""
        known = self._outer.get(id(tensor))
        if known is None:
            address = _address(tensor)
            known = next((k for k in self._outer.values() if _address(k[0]) == address), None)
        return None if known is None else known[:2]

    def get(self, fake: torch.Tensor, name: str, is_told: bool) -> Any:
        """An attribute that the fake itself does not have; MISSING where its tensor has none."""
        known = self._of.get(id(fake))
        if known is None or known.fake() is not fake or name.startswith(_OWN):
            return MISSING
        if name in known.given:
            return MISSING  # the step has deleted it
        entries = attributes_of(known.of)
        value = entries.get(name, MISSING)
        if is_told and name not in known.read:
            known.read.add(name)
            if known.position is not None:
                self.asked.append((known.position, name, value))
                self._watch.alone = "it reads attributes of its arguments"
            place = self._place_of(known)
            if known.position is not None:
                self._watch.reach.value(value, place.attribute(name))
            elif value is MISSING:
                self._watch.note_absent(entries, place.then("vars"), name)
            else:
                self._watch.entry(place.then("vars"), entries, name)
        if value is not MISSING:
            value = self._watch.fakes.get(id(value), value)
            known.given[name] = fake.__dict__[name] = value
        return value

    def changes(self) -> Iterator[Effect]:
        """What the step set and deleted."""
        for known in self._of.values():
            fake = known.fake()
            if fake is None:
                continue
            now = {
                name: value
                for name, value in fake.__dict__.items()
                if name not in known.before and not name.startswith(_OWN)
            }
            for name in dict.fromkeys((*known.given, *now)):
                after = now.get(name, MISSING)
                if not is_same(after, known.given.get(name, MISSING)):
                    yield self._change(known, name, after)
        guards = {} if self._watch is None else self._watch.guards
        for tensor, place, before, gradient in self._outer.values():
            if self._watch is not None and tensor.is_leaf and self._watch.names.is_named("grad"):
                self._watch.guard("own", place, tensor, "grad", gradient, f"{place.words}.grad")
            after = _gradient(tensor)
            if after is not gradient:
                words = _words("grad", place, tensor)
                yield Effect("own", place, tensor, "grad", gradient, after, words, True)
            entries = attributes_of(tensor)
            for name in dict.fromkeys((*before, *entries)):
                was, after = before.get(name, MISSING), entries.get(name, MISSING)
                if not name.startswith(_OWN) and not is_same(was, after):
                    words, read = _words(name, place, tensor), (id(entries), name) in guards
                    at = place.then("vars"), entries, name
                    yield Effect("entry", *at, was, after, words, read)

    def end(self) -> None:
        """Lets go of all tensors."""
        self._of.clear()
        self._outer.clear()
        self._watch = None

    def _change(self, known: _Tensor, name: str, after: Any) -> Effect:
        place, entries = self._place_of(known), attributes_of(known.of)
        before, read = entries.get(name, MISSING), name in known.read
        words = _words(name, place, known.of)
        change = Effect("entry", place.then("vars"), entries, name, before, after, words, read)
        change.in_module, change.of_argument = True, known.position is not None
        return change

    def _place_of(self, known: _Tensor) -> Place:
        """Of an argument, and of a tensor that only an optimizer has, no other step's is found."""
        if known.position is not None:
            return Place(None, "root", 0, f"argument {known.position}")
        fake = known.fake()
        for module in self._watch.objects.values():
            for holder in ("_parameters", "_buffers") if module.is_own else ():
                for name, tensor in dict.items(module.entries[holder]):
                    if tensor is fake:
                        return module.place.then("vars").then("entry", holder).attribute(name)
        self._watch.alone = "it reads attributes of a tensor that is in no module"
        return Place(None, "root", 0, "a tensor of an optimizer")


def _address(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError):  # it has no storage
        return None


def _gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.grad if tensor.is_leaf else None


def _words(name: str, place: Place, tensor: torch.Tensor) -> str:
    words, kind = place.words, type(tensor).__name__
    of = f"{words} (a {kind})" if words else f"a {kind}"
    return f"the attribute {name!r} of {of}"


def _missing(fake: torch.Tensor, name: str) -> Any:
    """What a fake gives for an attribute that it does not have."""
    attributes = getattr(_capturing, "attributes", None)
    if attributes is not None:
        asks = lookups.asking(sys._getframe(1))
        value = attributes.get(fake, name, asks is not None and not is_internal(asks.f_code))
        if value is not MISSING:
            return value
    kind = "Parameter" if fake.__dict__.get("_is_param") else "Tensor"
    raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name)


def _serve() -> None:
    FakeTensor.__getattr__ = _missing


def _leave() -> None:
    if "__getattr__" in vars(FakeTensor):
        del FakeTensor.__getattr__


_serving = SharedChange(_serve, _leave)
