"""Successors: objects in whose place others like them were put since a capture read them.

Who saves a configuration gives it a new list with the old words, who loads one a new dictionary,
who evaluates a model a new mask. A step reads what is in them, so that another one is no other form
of call, and is what the guards look at from then on. One object has one successor, which was
nowhere before, in all of its places: what is one stays one, and what are two stay two.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from laneway.capture.uses import Effect, Guard, is_same, parts_of

_KINDS = (dict, collections.OrderedDict, collections.Counter, list, set, collections.deque)


class Successors:
    """Of one look at guards. Containers that the step changes have none."""

    def __init__(
        self,
        guards: Sequence[Guard],
        effects: Iterable[Effect],
        like: Callable[[torch.Tensor, Any], bool],
    ) -> None:
        """like(before, now): whether a tensor may take the place of another."""
        self._like = like
        self._changed = {id(of) for effect in effects for of in (effect.holder, effect.before)}
        self._pairs: dict[int, tuple[Any, Any]] = {}  # by the id of the one before: both
        self._guards = guards

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._pairs.values())

    @functools.cached_property
    def _taken(self) -> set[int]:
        """Ids of what was somewhere before."""
        return {id(part) for guard in self._guards for part in seen_by(guard, guard.value)}

    def _add(self, before: Any, now: Any) -> bool:
        """`now` is in the place of `before`; False: it cannot be its successor."""
        if id(before) in self._pairs:
            return self._pairs[id(before)][1] is now
        if id(now) in self._taken:
            return False
        self._taken.add(id(now))
        self._pairs[id(before)] = before, now
        return True

    def holds(self, guard: Guard, now: Any) -> bool:
        """Whether what the guard sees is as it was, but for successors in places of objects."""
        if guard.kind != "content":
            return self.are_equal(now, guard.value)
        return len(now) == len(guard.value) and all(map(self.are_equal, now, guard.value))

    def of(self, holder: Any) -> Any:
        """The holder's successor; without one the holder."""
        return self._pairs.get(id(holder), (None, holder))[1]

    def are_alone(self, seen: Iterable[tuple[Guard, Any]]) -> bool:
        """Whether no guard still sees an object that has a successor elsewhere: the two could
        become different. `seen`: each guard with what it sees."""
        return not self._pairs or not any(
            id(part) in self._pairs
            for guard, now in seen
            if id(guard.holder) not in self._pairs
            for part in seen_by(guard, now)
        )

    def are_equal(self, now: Any, before: Any) -> bool:
        """Whether the two are one, equal plain values, tensors that are alike, or containers of
        such."""
        if is_same(now, before):
            return True
        if isinstance(before, torch.Tensor):
            if not (self._like(before, now) and self._add(before, now)):
                return False
            return self.are_equal(now.__dict__, before.__dict__)
        kind = type(before)
        if kind is tuple is type(now):
            return len(now) == len(before) and all(map(self.are_equal, now, before))
        if kind is not type(now) or kind not in _KINDS or id(before) in self._changed:
            return False
        if kind is collections.deque and now.maxlen != before.maxlen:
            return False
        if id(before) in self._pairs or not self._add(before, now):
            return self._pairs.get(id(before), (None, None))[1] is now
        ours, theirs = parts_of(now), parts_of(before)
        return len(ours) == len(theirs) and all(map(self.are_equal, ours, theirs))


def seen_by(guard: Guard, now: Any) -> Iterable[Any]:
    """The objects in `now`, which the guard sees."""
    return now if guard.kind == "content" else (now,)
