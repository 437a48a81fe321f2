"""What the parts of a watch (use_watch.py) tell it and ask of it and of each other, so that none of
them needs the watch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Protocol

import torch

from laneway.capture.chance import Chance
from laneway.capture.uses import Guard, Known, Place


class Names(Protocol):
    """use_names.Names."""

    def add(self, entries: Any, place: Place, name: str, of: Any) -> None: ...

    def entries_of(self, owner: type) -> Any: ...

    def also(self, of: Any, name: str) -> None: ...

    def note(
        self, attributes: Set[tuple[str, str]], stored: Set[str] = ..., goes_on: bool = ...
    ) -> None: ...

    def is_named(self, name: str) -> bool: ...


class Reach(Protocol):
    """use_reach.Reach."""

    def value(self, value: Any, place: Place) -> None: ...

    def entries(self, owner: type, place: Place) -> None: ...


class Tensors(Protocol):
    """tensor_attributes.TensorAttributes."""

    def add_outer(self, tensor: torch.Tensor, place: Place) -> None: ...

    def place_of(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Place] | None: ...


class Outside(Protocol):
    """outside.Outside."""

    def comes_upon(self, value: Any) -> None: ...


class Watcher(Protocol):
    """use_watch.Watch."""

    alone: str | None
    chance: Chance
    classes: dict[type, tuple[Place, dict[str, Any]]]
    fakes: dict[int, torch.Tensor]
    guards: dict[tuple[int, Any], Guard]
    objects: dict[int, Known]
    optimizers: Sequence[tuple[Any, Any]]  # those of the step, each with the copy that runs

    @property
    def names(self) -> Names: ...

    @property
    def outside(self) -> Outside: ...

    @property
    def reach(self) -> Reach: ...

    @property
    def tensors(self) -> Tensors: ...

    def know(self, of: Any, place: Place, is_own: bool = False) -> None: ...

    def function(self, function: Any, place: Place) -> None: ...

    def container(self, of: Any, place: Place) -> None: ...

    def entry(self, place: Place, holder: Any, name: Any) -> None: ...

    def look(self, of: Any, place: Place, look: Callable[[Any], Any], words: str) -> Any: ...

    def guard(
        self,
        kind: str,
        place: Place,
        holder: Any,
        key: Any,
        value: Any,
        words: str = "",
        of: Any = None,
    ) -> None: ...

    def take_whole(self, of: Any) -> None: ...

    def note_absent(self, holder: Any, place: Place, name: Any) -> None: ...

    def note_seen(self, entries: Any, name: str) -> bool: ...

    def may_change(
        self, place: Place, of: Any, key: Any, value: Any, kind: str = "entry", words: str = ""
    ) -> None: ...
