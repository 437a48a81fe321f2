"""What still holds tensors or numbers of a capture after its end.

A step may store what it computes where no watch sees it: in a queue, a context variable, an
attribute of a tensor. The store would have a tensor without data, the capture's for ever. So each
run of a step leaves weak references to what it made. Behind a capture almost always none of that is
alive, since the capture takes its own objects apart. Else the collector runs once, and who holds
the rest is looked for upwards, from holder to holder. A store is what leads to something that code
can reach: to the step's own objects, a Python module, a class, a context. What leads nowhere holds
itself (a hook in C++ that refers to its tensor), or is held by code that runs.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

import torch
from torch.utils import _pytree as pytree

from laneway.capture.effects import refusal
from laneway.capture.holder_words import is_scope, read_at, store_words
from laneway.capture.recorder import Recorder
from laneway.errors import CaptureError
from laneway.graph.graph_ir import NO_VALUE

_MOST_LEVELS = 16  # of holders, from a tensor to what code can reach; each is a look at all objects
_MOST_LOOKED_AT = 2000  # objects of one level, beside those of functions
_OF_FUNCTIONS = (types.CellType, types.FunctionType, types.MethodType, tuple)
_CONTAINERS = (dict, list, set, tuple)

Given = ParamSpec("Given")
Captured = TypeVar("Captured")

# Those to a variable of a function that asks for their number.
_OWN_REFERENCES = (lambda held: sys.getrefcount(held))(object())

_running = threading.local()  # .runs: those of this thread's capture


class Job(Protocol):
    """Who runs a step once."""

    recorder: Recorder

    def end(self) -> None:
        """Lets go of all tensors of the run."""


class Run:
    """One run of a step."""

    def __init__(self, job: Job) -> None:
        self._job: Job | None = job
        self._recorder = weakref.ref(job.recorder)  # which each number of the step holds
        self._nodes, self._made = job.recorder.nodes, job.recorder.table.made
        self._mode = job.recorder.fake_mode
        # Nothing of the step refers to it: who holds it took it from the collector's lists.
        with job.recorder.fake_mode:
            self.bait = torch.empty(0, device="cpu")

    def end(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.end()

    def alive(self) -> Iterator[tuple[Any, int]]:
        """What is alive, and its value in the graph."""
        for reference, value in self._made:
            tensor = reference()
            if tensor is not None:
                yield tensor, value
        recorder = self._recorder()
        if recorder is not None:
            yield recorder, NO_VALUE

    def take_apart(self) -> None:
        """Drops what C++ holds for what is alive."""
        for part, value in self.alive():
            if value != NO_VALUE:
                _take_apart(part)

    def is_held(self) -> bool:
        """Whether Python code may hold any of it. What C++ alone holds, as autocast around a call
        does with casts of weights, is looked for in vain."""
        if self._recorder() is not None:
            return True
        return any(_holders(reference) > 0 for reference, _ in self._made)

    def forbid(self) -> None:
        """From here on, who uses a tensor of it is told so: an object of C++ may have kept one,
        where nobody looks."""
        self._mode.dispatch = _without_data  # type: ignore[method-assign]

    def source(self, value: int) -> str | None:
        """The line that computed the value; None of a number, which tells itself."""
        if value == NO_VALUE:
            return None
        for node in self._nodes:
            if any(value in result.values for result in node.results):
                return node.source or None
        return None


def _without_data(operator: Any, *_: Any) -> NoReturn:
    raise CaptureError(
        "a tensor that a step computed while it was captured has no data: something that no "
        "capture sees, an object of C++, has kept it",
        operator=str(operator),
        remedy="return it from the step, and store it there outside",
    )


def _holders(reference: weakref.ref[torch.Tensor]) -> int:
    """How many references Python has to the tensor; where C++ has some, it has one to the object,
    too."""
    tensor = reference()
    if tensor is None:
        return 0
    return sys.getrefcount(tensor) - _OWN_REFERENCES - (tensor._use_count() > 1)


def note(job: Job) -> None:
    """The job's tensors and numbers should be gone when this thread's capture ends."""
    runs = getattr(_running, "runs", None)
    if runs is not None:
        runs.append(Run(job))


def none_survive(capture: Callable[Given, Captured]) -> Callable[Given, Captured]:
    """The capture, which raises CaptureError when something that code can reach holds a tensor or
    number of it."""

    @functools.wraps(capture)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Captured:
        runs: list[Run] = []
        outer, _running.runs = getattr(_running, "runs", None), runs
        try:
            captured = capture(*args, **kwargs)
        finally:
            _running.runs = outer
        try:
            for run in runs:
                run.end()
            if any(_is_any_alive(run) for run in runs):
                _check(runs, pytree.tree_leaves((args, kwargs)))
        finally:
            for run in runs:
                run.forbid()
        return captured

    return call


def _is_any_alive(run: Run) -> bool:
    return next(run.alive(), None) is not None


def _check(runs: list[Run], roots: Iterable[Any]) -> None:
    """Raises CaptureError for a store."""
    for run in runs:
        run.take_apart()
    if not any(run.is_held() for run in runs):
        return
    gc.collect()
    parts: list[Any] = []
    origins: dict[int, tuple[Run, int]] = {}
    for run in runs:
        for part, value in run.alive():
            parts.append(part)
            origins[id(part)] = run, value
    if not parts:
        return
    way = _Search(parts, [run.bait for run in runs], roots).way()
    if way:
        reason = "it stores what the step computes, and has that of the capture now"
        run, value = origins[id(way[0])]
        raise refusal(store_words(way), reason, run.source(value) or read_at(way))


def _take_apart(fake: torch.Tensor) -> None:
    """Drops what C++ holds for a tensor of the capture: the collector does not see through that."""
    for hooks in (fake._backward_hooks, getattr(fake, "_post_accumulate_grad_hooks", None)):
        if hooks:
            hooks.clear()
    with contextlib.suppress(RuntimeError):
        fake.grad = None
        fake.detach_()  # not of a view


class _Search:
    """A look for what holds one of the parts."""

    def __init__(self, parts: list[Any], baits: list[Any], roots: Iterable[Any]) -> None:
        self._baits = {id(bait) for bait in baits}
        self._roots = {id(root) for root in roots if not isinstance(root, (int, float, str))}
        self._level = parts
        self._seen: dict[int, Any] = {id(part): part for part in parts}
        self._below: dict[int, int] = {}  # the id of a holder, that of what it holds

    def way(self) -> list[Any]:
        """From one of the parts to what code can reach, both included; empty when there is none."""
        for _ in range(_MOST_LEVELS):
            found = self._look_above()
            if found is not None:
                return self._from_part(found)
            if not self._level:
                break
        return []

    def _look_above(self) -> Any:
        """Goes one level up. Returns a holder that code can reach."""
        level, self._level = self._level, []
        below, own = set(map(id, level)), {id(self._seen), id(self._below), id(level)}
        for holder in gc.get_referrers(*level):
            if id(holder) in self._seen or id(holder) in own or holder is self.__dict__:
                continue
            if isinstance(holder, types.FrameType) or self._is_scan(holder):
                continue
            inside = (id(part) for part in gc.get_referents(holder))
            number = next((part for part in inside if part in below), None)
            if number is None:
                continue
            self._seen[id(holder)], self._below[id(holder)] = holder, number
            if self._can_be_reached(holder):
                return holder
            if len(self._level) < _MOST_LOOKED_AT or isinstance(holder, _OF_FUNCTIONS):
                self._level.append(holder)
        return None

    def _is_scan(self, holder: Any) -> bool:
        """Whether it is a list of all objects, or of all tensors, that the collector knows."""
        if not isinstance(holder, _CONTAINERS):
            return False
        return any(id(part) in self._baits for part in gc.get_referents(holder))

    def _can_be_reached(self, holder: Any) -> bool:
        kinds = (types.ModuleType, type, contextvars.Context)
        return id(holder) in self._roots or isinstance(holder, kinds) or is_scope(holder)

    def _from_part(self, holder: Any) -> list[Any]:
        way, number = [holder], id(holder)
        while number in self._below:
            number = self._below[number]
            way.insert(0, self._seen[number])
        return way
