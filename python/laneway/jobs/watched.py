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
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

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


class WatchedList(list):
    """Stands for the parameters of a group of an optimizer."""

    __slots__ = ("watchers",)

    def __init__(self, content: list[Any]) -> None:
        super().__init__(content)
        self.watchers: list[Watcher] = []

    def __iter__(self) -> Iterator[Any]:
        tell(self.watchers)
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        tell(self.watchers)
        return super().__getitem__(index)

    # Without these, C code would copy the list as it is.
    def __add__(self, other: Any) -> Any:
        return list(self) + other

    def __radd__(self, other: Any) -> Any:
        return other + list(self)

    def __mul__(self, count: Any) -> Any:
        return list(self) * count

    __rmul__ = __mul__

    def __reversed__(self) -> Iterator[Any]:
        tell(self.watchers)
        return super().__reversed__()

    def copy(self) -> list[Any]:
        return list(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (), None, iter(self)


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
