"""Progress: the iterations of a step, and the files that the step writes as it goes."""

from __future__ import annotations

import dataclasses
import enum
import errno
import os
import threading
import warnings
from collections.abc import Callable
from typing import Final

from laneway.errors import Error, InvalidInput


class When(enum.Enum):
    """When save() writes its file, where no number of iterations says so."""

    now = "now"


NOW: Final = When.now


@dataclasses.dataclass
class _Plan:
    """A file that is written after every `every` iterations, next when `due` are counted."""

    every: int
    due: int


class Progress:
    """Thread-safe."""

    def __init__(self) -> None:
        self.iterations = 0
        self._plans: dict[str, _Plan] = {}
        self._lock = threading.Lock()

    def add(self) -> list[str]:
        """Counts one more iteration. Returns the files that are due."""
        with self._lock:
            self.iterations += 1
            return self._now_due() if self._plans else []

    def note(self, save: Callable[[str], None]) -> None:
        """Counts one more iteration, and calls save(path) for each file that is due. Warns when
        that fails: the iteration must not look as if it had failed, nor its result be lost."""
        for path in self.add():
            try:
                save(path)
            except (OSError, Error) as error:
                warnings.warn(
                    f"the state after iteration {self.iterations} was not saved to {path}: {error};"
                    " the iteration stands, and the file from before, if there is one, is whole: "
                    "make room, or save() to another path",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def set(self, iterations: int) -> None:
        """Counts on from this number, which a file had; files are due as if all had begun now."""
        with self._lock:
            self.iterations = iterations
            for plan in self._plans.values():
                plan.due = iterations + plan.every

    def plan(self, path: str | os.PathLike[str], every: int | None) -> None:
        """From here on `path` is due after every `every` iterations; None or 0: no longer. The plan
        of before stays when it is the same one. Raises InvalidInput for another number, OSError
        when the folder of `path` is missing."""
        if every is not None and (
            not isinstance(every, int) or isinstance(every, bool) or every < 0
        ):
            raise InvalidInput(
                f"every = {every!r}: give a number of iterations, or 0 or None to save no longer"
            )
        absolute = os.path.abspath(os.fspath(path))
        with self._lock:
            if not every:
                self._plans.pop(absolute, None)
                return
            known = self._plans.get(absolute)
            if known is not None and known.every == every:
                return
            folder = os.path.dirname(absolute)
            if not os.path.isdir(folder):
                raise FileNotFoundError(errno.ENOENT, "there is no folder to save into", folder)
            self._plans[absolute] = _Plan(every, self.iterations + every)

    def _now_due(self) -> list[str]:
        due = [path for path, plan in self._plans.items() if self.iterations >= plan.due]
        for path in due:
            plan = self._plans[path]
            plan.due = self.iterations + plan.every
        return due
