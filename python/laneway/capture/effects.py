"""What a step changed of Python outside of itself while it ran on fakes: put back, and told.

A plain change (a flag, a number, a list of such) is an effect: it is made after each run of the
graph. The graph's guards pin what was there before, so "becomes what it became" is exact. What the
step stores of its tensors and numbers would be the capture's for ever, and is refused, but for two
kinds: a tensor that is the same in every iteration (a cached mask), which each iteration computes
again; and what the step sets a module's attribute to before it reads it, which is one more output.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable, Container, Iterator
from typing import Any, NoReturn, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import Optimizer

from laneway.capture.code_names import is_empty
from laneway.capture.left_values import Left
from laneway.capture.looks import clears_of
from laneway.capture.recorder import Recorder
from laneway.capture.use_optimizers import OF_EVERY_OPTIMIZER
from laneway.capture.use_reach import is_watchable
from laneway.capture.use_watch import OF_EVERY_MODULE, Watch
from laneway.capture.uses import (
    MISSING,
    PLAIN,
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
_MOST_HELD = 2000  # parts of an object that is stored
# What is no part of an object that holds it.
_NOT_LOOKED_INTO = (*PLAIN, type, types.ModuleType, torch.nn.Module, Optimizer, torch.Tensor)
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
        judge = _Judge(recorder, watch)
        effects = [effect for effect in map(judge.effect_of, self._changes()) if effect is not None]
        self.left = judge.left
        self._guard_caches()
        installed = list(map(judge.installed, watch.hooks.changes()))
        alone = "it installs hooks" if installed else watch.alone
        asked = watch.tensors.asked
        return Uses(list(watch.guards.values()), [*effects, *installed], alone, asked=asked)

    def restore(self) -> None:
        """Gives everything the content from before the run."""
        for change in [*self._changes(), *self._watch.hooks.changes()]:
            change.put(change.before)
        self._watch.chance.restore()
        for cache, _, before in self._watch.reach.caches:
            if cache.cache_info().misses != before.misses and held_of_step(cache) is not None:
                cache.cache_clear()

    def _guard_caches(self) -> None:
        """Of what a cache answered, but for what each iteration computes again."""
        for cache, place, before in self._watch.reach.caches:
            if cache.cache_info() != before and held_of_step(cache) is None:
                words = f"what the cache of {place.words or cache.__wrapped__.__name__} answers"
                self._watch.look(cache, place, clears_of, words)
                self._watch.alone = "it asks a cache"

    def _changes(self) -> Iterator[Effect]:
        """What is otherwise than before the run; `was_read` where the step may have read it."""
        watch = self._watch
        for known in {id(known): known for known in watch.objects.values()}.values():
            if known.entries is None or id(known.entries) in watch.containers:
                continue
            at, in_module = known.place.then("vars"), isinstance(known.of, torch.nn.Module)
            now = known.entries if known.run is None else known.run
            for key, before, after in _differences(known.before, now):
                if known.run is not None and (key in OF_EVERY_OPTIMIZER or key in known.by_torch):
                    continue
                if known.is_own and key in OF_EVERY_MODULE and key != "_is_full_backward_hook":
                    continue
                name, kind = known.place.words, type(known.of).__name__
                named = f"{name} (a {kind})" if name and name != kind else f"a {kind}"
                words = f"the attribute {key!r} of {named}"
                read = key in known.seen and key not in known.written
                change = Effect("entry", at, known.entries, key, before, after, words, read)
                change.in_module, change.source = in_module, known.lines.get(key)
                change.by_torch = key in known.by_torch
                yield change
        yield from watch.tensors.changes()
        for of, place, before in watch.containers.values():
            now = content_of(of)
            if not _is_equal(now, before):
                words = f"the {type(of).__name__} {place.words}"
                yield Effect("content", place, of, None, before, now, words, True)
        for guard in watch.guards.values():
            if guard.kind == "look" and hasattr(guard.key, "put"):
                before, now = guard.value, guard.now()
                if not is_same(now, before):
                    at = guard.place, guard.holder, guard.key, before, now, guard.words
                    yield Effect("look", *at, True)
        for kind, place, holder, key, before, words in watch.variables.values():
            now = _variable(kind, holder, key)
            if not is_same(now, before):
                read = (id(holder), key) in watch.guards
                yield Effect(kind, place, holder, key, before, now, words, read)
        for owner, (place, entries) in watch.classes.items():
            for key, before, after in _differences(entries, dict(vars(owner))):
                if not key.startswith("__"):
                    words = f"the attribute {key!r} of the class {owner.__name__}"
                    read = (id(watch.names.entries_of(owner)), key) in watch.guards
                    yield Effect("entry", place, owner, key, before, after, words, read)


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

    def __init__(self, recorder: Recorder, watch: Watch) -> None:
        self._recorder, self._known, fakes = recorder, watch.objects, watch.fakes
        self._own = {id(fake) for fake in fakes.values()}  # of the job's tensors
        self._varying: Varying | None = None
        self.left: list[Left] = []

    def effect_of(self, change: Effect) -> Effect | None:
        """The change as one to make after each run; None for one that each run makes anew. Raises
        CaptureError for one that would be lost."""
        if change.of_argument:
            raise refusal(change.words, "it sets that on an argument", change.source)
        if change.kind == "look":
            part = held_of_step([change.holder, change.after])
            if part is not None:
                self._refuse_store(change, part)
            raise refusal(change.words, "it writes to it by C code", change.source)
        old = {id(part) for part in _parts(change.before)}
        found = [part for part in _of_step(change.after, _DEPTH) if id(part) not in old]
        if found and change.in_module and not change.was_read:
            self._leave(change, found)
            return None
        is_sequence = change.kind == "content" and not isinstance(change.after, dict)
        for part in found:
            if is_sequence or isinstance(part, SYMBOLS) or self._varies(part):
                self._refuse_store(change, part)
        if found:
            return self._without(change, found)
        if change.kind != "content" and is_plain(change.after):
            return _with_copy(change)
        return self._kept(change, old)

    def _kept(self, change: Effect, old: set[int]) -> Effect | None:
        """A change by which something is held that is not plain: a member of an enum, a function,
        an object. What torch itself keeps of a step (nodes of autograd), each run makes anew."""
        if change.by_torch:
            return None
        is_content = change.kind == "content"
        new = (
            [p for p in _parts(change.after) if id(p) not in old] if is_content else [change.after]
        )
        for part in new:
            if issubclass(type(part), torch.autograd.graph.Node):
                return None
            found = held_of_step(part, self._known)
            if found is not None:
                if id(found) in old or type(part).__module__.startswith("torch."):
                    return None
                self._refuse_store(change, found)
        change.is_shared = True
        return change

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

    def _refuse_store(self, change: Effect, part: Any) -> NoReturn:
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


def held_of_step(value: Any, known: Container[int] = ()) -> Any:
    """A tensor or number of the step in an object of any kind; None when there is none. What has
    one of the ids `known` is no part of the object."""
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MOST_HELD:
        each = waiting.pop()
        kind = type(each)
        if issubclass(kind, (FakeTensor, *SYMBOLS)):
            return each
        if id(each) in seen or id(each) in known or issubclass(kind, _NOT_LOOKED_INTO):
            continue
        seen.add(id(each))
        is_code = issubclass(kind, (types.FunctionType, types.MethodType, functools.partial))
        waiting += _held_by(each) if is_code else gc.get_referents(each)
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
