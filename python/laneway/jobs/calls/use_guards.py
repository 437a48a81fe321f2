"""UseGuards: whether what a graph's capture read of Python is as it was, asked before each call.

The question is one generated function for a graph, one term for each guard: some 25 ns each. Where
it says no, a slow look compares exactly: an equal number that is another object is no change.
"""

from __future__ import annotations

import collections
import threading
import types
from collections.abc import Callable
from operator import is_
from typing import Any

import torch

from laneway.capture.uses import MISSING, Guard, Uses, entry_of, is_same, parts_of, short
from laneway.jobs.calls.generated import all_of
from laneway.jobs.calls.outer_tensors import OuterTensors, is_like
from laneway.jobs.calls.slot_contents import form_of
from laneway.jobs.calls.successors import Successors, seen_by

# Such objects equal themselves alone, so that lists of them may be compared at once, which takes a
# third of the time that one by one takes.
_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, type, type(None))


class UseGuards:
    """`tensors` are those from outside that operators of the graph use. Keeps what was read alive.
    Thread-safe."""

    def __init__(self, uses: Uses, tensors: OuterTensors | None = None) -> None:
        self._guards, self._effects, self._tensors = uses.guards, uses.effects, tensors
        self._holders = {id(guard.holder) for guard in uses.guards}
        # Of tensors that no operator uses, of which the step may have asked what they are like.
        self._forms = self._forms_now()
        self._lock = threading.Lock()
        self.count = len(uses.guards)
        self._hold = self._generated()

    def hold(self) -> bool:
        """Whether everything is as it was."""
        return self.hold_at_once() or self.difference() is None

    def hold_at_once(self) -> bool:
        """The same without a look at what only seems to be otherwise."""
        try:
            return self._hold()
        except Exception:  # what is looked at is gone, or changes while it is looked at
            return False

    def difference(self) -> str | None:
        """What is otherwise, in words; None when nothing is."""
        if self.hold_at_once():
            return None
        with self._lock:
            successors, seen = Successors(self._guards, self._effects, self._is_like), []
            for guard in self._guards:
                try:
                    now = guard.now()
                except Exception:
                    return f"{guard.words or 'something'}, which the step reads, is gone"
                if not (guard.holds(now) or successors.holds(guard, now)):
                    return _words(guard, now)
                if self._forms and any(map(self._has_other_form, seen_by(guard, now))):
                    return f"{guard.words or 'a tensor'}, which the step reads, has another form"
                seen.append((guard, now))
            if not successors.are_alone(seen):
                return "what the step reads in two places is another object in one of them"
            for number, (_, now) in enumerate(seen):
                self._renew(number, now)
            if successors:
                self._follow(successors)
        return None

    def _is_like(self, before: torch.Tensor, now: Any) -> bool:
        """Whether a tensor may take the place of another: nothing was read of that one beside its
        form, its numbers and its attributes, no gradient or bytes."""
        if id(before) in self._holders:
            return False
        return (is_like if self._tensors is None else self._tensors.take_place)(before, now)

    def _forms_now(self) -> dict[int, tuple[torch.Tensor, tuple]]:
        used = self._tensors.has if self._tensors is not None else lambda tensor: False
        return {
            id(part): (part, form_of(part))
            for guard in self._guards
            for part in seen_by(guard, guard.value)
            if isinstance(part, torch.Tensor) and not used(part)
        }

    def _has_other_form(self, part: Any) -> bool:
        known = self._forms.get(id(part))
        return known is not None and form_of(part) != known[1]

    def _have_their_forms(self) -> bool:
        return all(form_of(tensor) == form for tensor, form in self._forms.values())

    def _follow(self, successors: Successors) -> None:
        """Looks at these from here on."""
        for before, now in successors:
            if self._tensors is not None and isinstance(before, torch.Tensor):
                self._tensors.put(before, now)
        for number, guard in enumerate(self._guards):
            holder = successors.of(guard.holder)
            if holder is guard.holder:
                continue
            guard.holder = holder
            if number in self._holder_cells:
                self._holder_cells[number].cell_contents = holder
            self._renew(number, guard.now())
        self._holders = {id(guard.holder) for guard in self._guards}
        self._forms = self._forms_now()

    def _renew(self, number: int, now: Any) -> None:
        """Equal objects are compared by identity, so the present ones are what to look for."""
        guard = self._guards[number]
        if guard.kind == "look":
            return
        guard.value = now
        if guard.kind == "content":
            self._parts[number][:] = now
            if number in self._pairs:
                keys, values = self._pairs[number]
                keys[:], values[:] = now[0::2], now[1::2]
        elif number in self._values:
            self._values[number].cell_contents = now

    def _generated(self) -> Callable[[], bool]:
        given: dict[str, Any] = {
            "_is": is_,
            "_is_same": is_same,
            "_all": all,
            "_map": map,
            "_parts": parts_of,
            "_type": type,
        }
        self._parts: dict[int, list[Any]] = {}
        self._pairs: dict[int, tuple[list[Any], list[Any]]] = {}  # of dictionaries
        names: dict[int, str] = {}
        terms: list[str] = []
        wholes = {id(g.holder): _entries(g) for g in self._guards if g.kind == "content"}
        for number, guard in enumerate(self._guards):
            whole = wholes.get(id(guard.holder)) if guard.kind == "entry" else None
            if whole is not None and whole.get(guard.key, MISSING) is guard.value:
                continue  # it is among the parts that are compared
            terms.append(self._term(number, guard, given, names))
        if self._forms:
            given["_have_their_forms"] = self._have_their_forms
            terms.append("_have_their_forms()")
        hold = all_of(terms, given)
        cells = dict(zip(hold.__code__.co_freevars, hold.__closure__ or ()))
        self._holder_cells = {
            number: cells[name]
            for number, guard in enumerate(self._guards)
            if (name := names.get(id(guard.holder))) in cells
        }
        self._values = {
            number: cells[f"v{number}"]
            for number in range(len(self._guards))
            if f"v{number}" in cells
        }
        return hold

    def _term(self, number: int, guard: Guard, given: dict[str, Any], names: dict[int, str]) -> str:
        holder = names.setdefault(id(guard.holder), f"h{len(names)}")
        given[holder] = guard.holder
        if guard.kind == "look":
            given[f"k{number}"], given[f"v{number}"] = guard.key, guard.value
            return f"_is_same(k{number}({holder}), v{number})"
        if guard.kind == "content":
            return self._content(number, guard, holder, given)
        if guard.kind == "cell":
            if guard.value is MISSING:
                given[f"g{number}"] = guard
                return f"g{number}.holds(g{number}.now())"
            given[f"v{number}"] = guard.value
            return f"{holder}.cell_contents is v{number}"
        if guard.kind == "class":
            given[f"v{number}"] = guard.value
            return f"_type({holder}) is v{number}"
        if guard.kind == "own":
            given[f"v{number}"] = guard.value
            return f"{holder}.{guard.key} is v{number}"
        key = repr(guard.key) if type(guard.key) in (str, int) else f"k{number}"
        given.update({} if key != f"k{number}" else {key: guard.key})
        if guard.value is MISSING:
            return f"{key} not in {holder}"
        given[f"v{number}"] = guard.value
        if isinstance(guard.holder, dict) and type(guard.holder) is not dict:
            given["_entry"] = entry_of
            return f"_entry({holder}, {key}) is v{number}"
        return f"{holder}[{key}] is v{number}"

    def _content(self, number: int, guard: Guard, holder: str, given: dict[str, Any]) -> str:
        parts = self._parts[number] = list(guard.value)
        if not parts or (_is_set(guard.holder) and not parts[0]):
            return f"not {holder}"
        given[f"p{number}"] = parts
        if _is_set(guard.holder):
            return f"{holder} == p{number}[0]"
        if isinstance(guard.holder, (list, tuple)):
            count = len(parts)
            return f"len({holder}) == {count} and _all(_map(_is, {holder}, p{number}))"
        if _is_mapping(guard.holder):
            return self._mapping(number, holder, given, type(guard.holder) is dict)
        given[f"g{number}"], given["_same"] = guard, _same
        return f"_same(g{number}, p{number})"

    def _mapping(self, number: int, holder: str, given: dict[str, Any], is_dict: bool) -> str:
        """Keys and values in the order of the mapping."""
        parts = self._parts[number]
        keys, values = self._pairs[number] = parts[0::2], parts[1::2]
        given[f"a{number}"], given[f"b{number}"] = keys, values
        now, values_now = holder, f"{holder}.values()"
        if not is_dict:  # of a subclass without its own ways
            given["_keys"], given["_of"] = dict.keys, dict.values
            now, values_now = f"_keys({holder})", f"_of({holder})"
        if all(type(key) is str for key in keys):
            same_keys = f"[*{now}] == a{number}"
        else:
            same_keys = f"len({now}) == {len(keys)} and _all(_map(_is, {now}, a{number}))"
        if all(type(value) in _BY_IDENTITY for value in values):
            return f"{same_keys} and [*{values_now}] == b{number}"
        return f"{same_keys} and _all(_map(_is, {values_now}, b{number}))"


def _same(guard: Guard, parts: list[Any]) -> bool:
    now = parts_of(guard.holder)
    return len(now) == len(parts) and all(map(is_, now, parts))


def _entries(guard: Guard) -> dict[Any, Any] | None:
    """What a guard of a whole mapping says of its entries."""
    if not _is_mapping(guard.holder):
        return None
    return dict(zip(guard.value[0::2], guard.value[1::2]))


def _is_mapping(holder: Any) -> bool:
    """Whether dict's own methods give the mapping's parts in its order."""
    return isinstance(holder, dict) and not isinstance(holder, collections.OrderedDict)


def _is_set(holder: Any) -> bool:
    return isinstance(holder, (set, frozenset))


def _words(guard: Guard, now: Any) -> str:
    words = guard.words or "something"
    if guard.kind == "content":
        return f"the content of {words}, which the step reads, has changed"
    if isinstance(now, torch.Tensor):
        return f"{words}, which the step reads, is another tensor"
    if guard.kind == "look":
        return f"{words}, which the step reads, has changed"
    return f"{words}, which the step reads, is {short(now)} and was {short(guard.value)}"
