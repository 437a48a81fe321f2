"""Containers of a client's model and optimizer that tell when they are read.

torch keeps the tensors of a module in two dictionaries, the parameters of an optimizer in a list
for each group, and its state in a dictionary. While these tensors live in a service, a watched
container of the same contents takes the place of each: whoever asks it for a tensor is given that
tensor after the watchers have brought it up to date. Copies, by copy or pickle, have containers of
torch's own types.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from laneway.errors import InvalidInput

_quiet = threading.local()

Container = TypeVar("Container")


class Watcher(Protocol):
    """Who is told of reads."""

    due: bool  # whether it wants to be told of the next one

    def touched(self) -> None:
        """Called before a read, and never inside quietly(). What it raises, the reader gets."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Inside, this thread may read the containers and nobody is told."""
    _quiet.depth = getattr(_quiet, "depth", 0) + 1
    try:
        yield
    finally:
        _quiet.depth -= 1


def is_quiet() -> bool:
    """Whether this thread is inside quietly()."""
    return bool(getattr(_quiet, "depth", 0))


def tell(watchers: list[Watcher]) -> None:
    """Tells those that are due of a read, unless this thread is inside quietly()."""
    for watcher in watchers:
        if watcher.due and not is_quiet():
            watcher.touched()


class WatchedTensors(dict):
    """Stands for `_parameters` or `_buffers` of a module."""

    __slots__ = ("watchers",)

    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__(content)
        self.watchers: list[Watcher] = []

    def __getitem__(self, name: str) -> Any:
        tell(self.watchers)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:  # without it dict(self) would ask for nothing else
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        tell(self.watchers)
        return super().get(name, default)

    def items(self) -> Any:
        tell(self.watchers)
        return super().items()

    def values(self) -> Any:
        tell(self.watchers)
        return super().values()

    def pop(self, *args: Any) -> Any:
        tell(self.watchers)
        return super().pop(*args)

    def popitem(self) -> Any:
        tell(self.watchers)
        return super().popitem()

    def setdefault(self, *args: Any) -> Any:
        tell(self.watchers)
        return super().setdefault(*args)

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        memo[id(self)] = made = {}
        for name, tensor in self.items():
            made[name] = copy.deepcopy(tensor, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Not a dict, whose name torch.load(weights_only=True) does not know.
        return collections.OrderedDict, (), None, None, iter(self.items())


class WatchedState(collections.defaultdict):
    """Stands for the state of an optimizer."""

    def __init__(self, content: dict[Any, Any]) -> None:
        super().__init__(dict, content)
        self.watchers: list[Watcher] = []

    def __getitem__(self, parameter: Any) -> Any:
        tell(self.watchers)
        return super().__getitem__(parameter)

    def __setitem__(self, parameter: Any, state: Any) -> None:
        tell(self.watchers)
        super().__setitem__(parameter, state)

    def __delitem__(self, parameter: Any) -> None:
        tell(self.watchers)
        super().__delitem__(parameter)

    def __contains__(self, parameter: object) -> bool:
        tell(self.watchers)
        return super().__contains__(parameter)

    def __iter__(self) -> Iterator[Any]:
        tell(self.watchers)
        return super().__iter__()

    def __len__(self) -> int:
        tell(self.watchers)
        return super().__len__()

    def get(self, parameter: Any, default: Any = None) -> Any:
        tell(self.watchers)
        return super().get(parameter, default)

    def keys(self) -> Any:
        tell(self.watchers)
        return super().keys()

    def items(self) -> Any:
        tell(self.watchers)
        return super().items()

    def values(self) -> Any:
        tell(self.watchers)
        return super().values()

    def update(self, *args: Any) -> None:
        tell(self.watchers)
        super().update(*args)

    def clear(self) -> None:
        tell(self.watchers)
        super().clear()

    def pop(self, *args: Any) -> Any:
        tell(self.watchers)
        return super().pop(*args)

    def popitem(self) -> Any:
        tell(self.watchers)
        return super().popitem()

    def setdefault(self, *args: Any) -> Any:
        tell(self.watchers)
        return super().setdefault(*args)

    def copy(self) -> collections.defaultdict:
        return collections.defaultdict(dict, self.items())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return collections.defaultdict, (dict,), None, None, iter(self.items())


class _Behind:
    """Stands in the memory of a WatchedList for the tensors that the list has. Python never sees
    it: the list's methods give tensors. C code that reads a list's memory by itself finds it, and
    torch's asks it before the call: __torch_function__ gives the call plain lists of tensors that
    are up to date."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: tuple, kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if not any(isinstance(argument, WatchedList) for argument in given):
            raise _copied(f"{getattr(function, '__name__', function)} was given")
        named = {name: _plain(value) for name, value in (kwargs or {}).items()}
        return function(*map(_plain, args), **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _copied(f"{name!r} was looked up in")

    def __repr__(self) -> str:
        return "<a parameter of an optimizer of a Laneway step: take list(group['params'])>"


def _copied(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} a list that C code copied from an optimizer's group while its parameters are in a "
        "job; copy it by list(group['params'])"
    )


_BEHIND = _Behind()


def _plain(argument: Any) -> Any:
    return list(argument) if isinstance(argument, WatchedList) else argument


class WatchedList(list):
    """Stands for the parameters of a group of an optimizer. `content` has them; in its own memory
    the list has as many stand-ins, so that no C code reads tensors that nobody brought up to date.
    """

    __slots__ = ("content", "watchers")

    def __init__(self, content: list[Any]) -> None:
        self.content = list(content)
        self.watchers: list[Watcher] = []
        self._cover()

    def _cover(self) -> None:
        super().__init__([_BEHIND] * len(self.content))

    def _told(self) -> list[Any]:
        tell(self.watchers)
        return self.content

    def __iter__(self) -> Iterator[Any]:
        return iter(self._told())

    def __getitem__(self, index: Any) -> Any:
        return self._told()[index]

    def __contains__(self, parameter: object) -> bool:
        return parameter in self._told()

    def __eq__(self, other: object) -> bool:
        return self._told() == (held(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._told() < _plain(other)

    def __le__(self, other: Any) -> bool:
        return self._told() <= _plain(other)

    def __gt__(self, other: Any) -> bool:
        return self._told() > _plain(other)

    def __ge__(self, other: Any) -> bool:
        return self._told() >= _plain(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._told())

    def __add__(self, other: Any) -> Any:
        return self._told() + _plain(other)

    def __radd__(self, other: Any) -> Any:
        return other + self._told()

    def __mul__(self, count: Any) -> Any:
        return self._told() * count

    __rmul__ = __mul__

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._told())

    def copy(self) -> list[Any]:
        return list(self)

    def index(self, *args: Any) -> int:
        return self._told().index(*args)

    def count(self, parameter: Any) -> int:
        return self._told().count(parameter)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (), None, iter(self)


def _changing(name: str) -> Any:
    """The method of list that changes the content, and then the list's memory with it."""
    of_list = getattr(list, name)

    def change(self: WatchedList, *args: Any, **kwargs: Any) -> Any:
        try:
            result = of_list(self._told(), *map(_plain, args), **kwargs)
        finally:
            self._cover()
        return self if result is self.content else result

    return functools.wraps(of_list)(change)


for _name in ("__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "extend", "insert"):
    setattr(WatchedList, _name, _changing(_name))
for _name in ("pop", "remove", "clear", "reverse", "sort"):
    setattr(WatchedList, _name, _changing(_name))


def held(parameters: list[Any]) -> list[Any]:
    """The parameters of a group, watched or not, of which nobody is told."""
    return parameters.content if isinstance(parameters, WatchedList) else parameters


def watch(container: Container, kind: Callable[[Container], Any], watcher: Watcher) -> Any:
    """The watched container for `container`, which may be one already; `watcher` is told of its
    reads."""
    found = container if isinstance(container, kind) else kind(container)  # type: ignore[arg-type]
    if watcher not in found.watchers:
        found.watchers = [*found.watchers, watcher]
    return found


def unwatch(container: Any, plain: Callable[[Any], Any], watcher: Watcher) -> Any:
    """The container without `watcher`: plain(container) when that was the last one. Any other
    container is returned as it is.

    Requires: the thread is inside quietly()."""
    if not isinstance(container, (WatchedTensors, WatchedState, WatchedList)):
        return container
    container.watchers = [w for w in container.watchers if w is not watcher]
    return container if container.watchers else plain(container)


def watchers_of(container: object) -> list[Watcher]:
    """Who watches the container."""
    watched = isinstance(container, (WatchedTensors, WatchedState, WatchedList))
    return container.watchers if watched else []
