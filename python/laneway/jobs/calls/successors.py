"""Successors: containers in whose place others of equal content were put since a capture read them.

Who saves a configuration gives it a new list with the old words; who loads one, a new dictionary.
A step reads what is in them, so that another one of equal content is no other form of call, and is
what the guards look at from then on.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from laneway.capture.uses import Effect, Guard, is_same, parts_of

_KINDS = (dict, collections.OrderedDict, collections.Counter, list, set, collections.deque)


class Successors:
    """Of one look at guards. Containers that the step changes have none."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._changed = {id(of) for effect in effects for of in (effect.holder, effect.before)}
        self._pairs: dict[int, tuple[Any, Any]] = {}  # by the id of the one before: both

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def holds(self, guard: Guard, now: Any) -> bool:
        """Whether what the guard sees is as it was, but for containers with others in their places.
        One container has one successor."""
        if guard.kind != "content":
            return self._is_equal(now, guard.value)
        return len(now) == len(guard.value) and all(map(self._is_equal, now, guard.value))

    def of(self, holder: Any) -> Any:
        """The holder's successor; without one the holder."""
        return self._pairs.get(id(holder), (None, holder))[1]

    def are_alone(self, seen: Iterable[tuple[Guard, Any]]) -> bool:
        """Whether no guard sees a container still that has a successor elsewhere: the two could
        become different. `seen`: each guard with what it sees."""
        for guard, now in seen:
            if id(guard.holder) in self._pairs:
                continue
            parts = now if guard.kind == "content" else (now,)
            if any(id(part) in self._pairs for part in parts):
                return False
        return True

    def _is_equal(self, now: Any, before: Any) -> bool:
        if is_same(now, before):
            return True
        kind = type(before)
        if kind is tuple is type(now):
            return len(now) == len(before) and all(map(self._is_equal, now, before))
        if kind is not type(now) or kind not in _KINDS or id(before) in self._changed:
            return False
        if id(before) in self._pairs:
            return self._pairs[id(before)][1] is now
        if kind is collections.deque and now.maxlen != before.maxlen:
            return False
        self._pairs[id(before)] = before, now
        ours, theirs = parts_of(now), parts_of(before)
        return len(ours) == len(theirs) and all(map(self._is_equal, ours, theirs))
