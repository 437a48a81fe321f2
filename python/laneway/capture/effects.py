"""What a step changed of Python outside of itself while it ran on fakes: put back, and told.

A plain change (a flag, a number, a list of such) is an effect: it is made after each run of the
graph. The graph's guards pin what was there before, so "becomes what it became" is exact. What the
step stores of its tensors and numbers would be the capture's for ever, and is refused, but for two
kinds: a tensor that is the same in every iteration (a cached mask), which each iteration computes
again; and what the step sets a module's attribute to before it reads it, which is one more output.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.capture.code_names import is_empty
from laneway.capture.left_values import Left
from laneway.capture.recorder import Recorder
from laneway.capture.use_reach import is_watchable
from laneway.capture.use_watch import OF_EVERY_MODULE, Watch
from laneway.capture.uses import (
    MISSING,
    Effect,
    Uses,
    attributes_of,
    content_of,
    copied,
    is_plain,
    is_same,
    parts_of,
)
from laneway.capture.varying import SYMBOLS, Varying
from laneway.errors import CaptureError

_MOST_STATES = 3  # that a step's own flags may go through before they stay
_DEPTH = 4  # of objects in objects that are looked through for what the step computed

Ran = TypeVar("Ran")


class Effects:
    """One per run of a step: settle() after it, restore() in any case."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.left: list[Left] = []  # attributes of modules that get what the step computes

    def settle(self, recorder: Recorder) -> Uses:
        """What the run used. Raises CaptureError for changes that no graph can repeat."""
        watch = self._watch
        watch.chance.check()
        judge = _Judge(recorder, watch.fakes)
        effects = [effect for effect in map(judge.effect_of, self._changes()) if effect is not None]
        self.left = judge.left
        installed = list(map(judge.installed, watch.hooks.changes()))
        alone = "it installs hooks" if installed else watch.alone
        return Uses(list(watch.guards.values()), [*effects, *installed], alone)

    def restore(self) -> None:
        """Gives everything the content from before the run."""
        for change in [*self._changes(), *self._watch.hooks.changes()]:
            change.put(change.before)
        self._watch.chance.restore()
        for cache, misses in self._watch.reach.caches:
            if cache.cache_info().misses != misses:
                cache.cache_clear()  # it may have fakes

    def _changes(self) -> Iterator[Effect]:
        """What is otherwise than before the run; `was_read` where the step may have read it."""
        watch = self._watch
        for known in watch.objects.values():
            if known.entries is None or id(known.entries) in watch.containers:
                continue
            at, in_module = known.place.then("vars"), isinstance(known.of, torch.nn.Module)
            for key, before, after in _differences(known.before, known.entries):
                if known.is_own and key in OF_EVERY_MODULE and key != "_is_full_backward_hook":
                    continue
                name, kind = known.place.words, type(known.of).__name__
                named = f"{name} (a {kind})" if name and name != kind else f"a {kind}"
                words = f"the attribute {key!r} of {named}"
                read = key in known.seen and key not in known.written
                change = Effect("entry", at, known.entries, key, before, after, words, read)
                change.in_module, change.source = in_module, known.lines.get(key)
                yield change
        for of, place, before in watch.containers.values():
            now = content_of(of)
            if not _is_equal(now, before):
                words = f"the {type(of).__name__} {place.words}"
                yield Effect("content", place, of, None, before, now, words, True)
        for kind, place, holder, key, before, words in watch.variables:
            now = _variable(kind, holder, key)
            if not is_same(now, before):
                yield Effect(kind, place, holder, key, before, now, words, True)
        for owner, (place, entries) in watch.classes.items():
            for key, before, after in _differences(entries, dict(vars(owner))):
                if not key.startswith("__"):
                    words = f"the attribute {key!r} of the class {owner.__name__}"
                    yield Effect("entry", place, owner, key, before, after, words, True)


def settled(run: Callable[[], tuple[Ran, Uses]]) -> Ran:
    """The first part of run()'s result. What the step changes and may have read is given its new
    values, and run() is called again until it changes no more. Raises CaptureError where it always
    does."""
    ran, uses = run()
    changing = [effect for effect in uses.effects if effect.was_read]
    made: list[Effect] = []
    try:
        for _ in range(_MOST_STATES):
            if not changing:
                return ran
            for effect in changing:
                made.append(effect)
                effect.do()
            changing = [effect for effect in run()[1].effects if effect.was_read]
        if not changing:
            return ran
    finally:
        for effect in reversed(made):
            effect.put(effect.before)
    first = changing[0]
    raise refusal(first.words, "it does so again in each iteration", first.source)


def refusal(words: str, reason: str, source: str | None = None) -> CaptureError:
    """The error for a step that changes what `words` name."""
    return CaptureError(
        f"the step changes {words}: {reason}, which would happen at capture only",
        source=source,
        remedy="return the value from the step and keep it outside; or register a buffer (a "
        "tensor) of the model and write into it",
    )


class _Judge:
    """What becomes of changes."""

    def __init__(self, recorder: Recorder, fakes: dict[int, torch.Tensor]) -> None:
        self._recorder = recorder
        self._own = {id(fake) for fake in fakes.values()}  # of the job's tensors
        self._varying: Varying | None = None
        self.left: list[Left] = []

    def effect_of(self, change: Effect) -> Effect | None:
        """The change as one to make after each run; None for one that each run makes anew. Raises
        CaptureError for one that would be lost."""
        old = {id(part) for part in _parts(change.before)}
        found = [part for part in _of_step(change.after, _DEPTH) if id(part) not in old]
        if found and change.in_module and not change.was_read:
            self._leave(change, found)
            return None
        is_sequence = change.kind == "content" and not isinstance(change.after, dict)
        for part in found:
            if is_sequence or isinstance(part, SYMBOLS) or self._varies(part):
                self._check_stored(change, part)
        if found:
            return self._without(change, found)
        if change.kind == "content" or change.after is MISSING:
            return change
        return _with_copy(change) if is_plain(change.after) else None

    def installed(self, change: Effect) -> Effect:
        """The same for hooks and children of modules."""
        for key, value in change.after.items():
            if value is change.before.get(key):
                continue
            if next(_of_step(_held_by(value), _DEPTH), None) is not None:
                raise refusal(change.words, "it installs what holds what the step computes")
        return change

    def _leave(self, change: Effect, found: list[Any]) -> None:
        if any(id(part) in self._own for part in found):
            raise refusal(change.words, "it stores a tensor of the model", change.source)
        self.left.append(Left(change.holder, change.key, change.after))

    def _check_stored(self, change: Effect, part: Any) -> None:
        source = change.source or self._source(part)
        raise refusal(change.words, "it stores what the step computes", source)

    def _without(self, change: Effect, found: list[Any]) -> Effect | None:
        """Of what every iteration computes again, nothing stays."""
        if change.kind != "content" or not isinstance(change.after, dict):
            return None
        kept = {id(part) for part in found}
        after = {
            key: value
            for key, value in change.after.items()
            if not any(id(part) in kept for part in _of_step(value, _DEPTH))
        }
        change.after = after
        return None if _is_equal(after, change.before) else change

    def _varies(self, part: Any) -> bool:
        if self._varying is None:
            self._varying = Varying(self._recorder)
        return self._varying.holds(part)

    def _source(self, part: Any) -> str | None:
        """The line that computed it."""
        if isinstance(part, SYMBOLS):
            _, is_read, line = part.node.origin.rpartition(" read at ")
            return line if is_read else None
        value = self._recorder.table.find(part)
        for node in self._recorder.nodes:
            if any(value in result.values for result in node.results):
                return node.source or None
        return None


def _held_by(hook: Any) -> list[Any]:
    """What a function holds by itself."""
    if isinstance(hook, functools.partial):
        return [*hook.args, *hook.keywords.values(), *_held_by(hook.func)]
    if isinstance(hook, types.MethodType):
        return [hook.__self__, *_held_by(hook.__func__)]
    cells = getattr(hook, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells if not is_empty(cell)]
    return [*held, *(getattr(hook, "__defaults__", None) or ())]


def _with_copy(change: Effect) -> Effect:
    change.after = copied(change.after)
    return change


def _of_step(value: Any, depth: int, seen: set[int] | None = None) -> Iterator[Any]:
    """The tensors and numbers of the step in a value: in containers, and in plain objects."""
    seen = set() if seen is None else seen
    if isinstance(value, (FakeTensor, *SYMBOLS)):
        yield value
        return
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    for part in _parts(value):
        yield from _of_step(part, depth - 1, seen)
    kinds = (type, types.FunctionType, types.ModuleType, torch.nn.Module)
    if is_watchable(type(value)) and not isinstance(value, kinds):
        entries = attributes_of(value)
        for part in list(entries.values()) if type(entries) is dict else ():
            yield from _of_step(part, depth - 1, seen)


def _parts(value: Any) -> list[Any]:
    return (
        parts_of(value) if isinstance(value, (dict, list, tuple, set)) or _is_deque(value) else []
    )


def _is_deque(value: Any) -> bool:
    return type(value).__name__ == "deque"


def _differences(before: Any, now: Any) -> list[tuple[Any, Any, Any]]:
    keys = [*before, *(key for key in now if key not in before)]
    pairs = ((key, before.get(key, MISSING), dict.get(now, key, MISSING)) for key in keys)
    return [(key, was, is_now) for key, was, is_now in pairs if not is_same(was, is_now)]


def _is_equal(a: Any, b: Any) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(key in b and is_same(value, b[key]) for key, value in a.items())
    if isinstance(a, set):
        return all(any(part is other for other in b) or part in b for part in a)
    return all(map(is_same, a, b))


def _variable(kind: str, holder: Any, key: Any) -> Any:
    if kind == "cell":
        try:
            return holder.cell_contents
        except ValueError:
            return MISSING
    if kind == "slot":
        return getattr(holder, key, MISSING)
    return dict.get(holder, key, MISSING)
