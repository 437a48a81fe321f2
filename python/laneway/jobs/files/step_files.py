"""StepFiles: the part of a TrainStep that counts its iterations and keeps its state in files."""

from __future__ import annotations

import os
from typing import Any

from laneway.jobs.files import state_file
from laneway.jobs.files.progress import NOW, Progress, When
from laneway.jobs.watch.shown_progress import shown


class StepFiles:
    """Requires: the step sets `_progress`, and notes its iterations there."""

    _progress: Progress

    @property
    def iterations(self) -> int:
        """How many iterations were run or submitted, also before a file that load() read."""
        return self._progress.iterations

    def state_dict(self) -> dict[str, Any]:
        """The state that goes into a file."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes a state that comes from a file."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], every: int | When | None = NOW) -> None:
        """Writes state_dict() and `iterations` to the file `path`, so that a run can go on after
        the end of the client, the service or the machine: whole or not at all, the file that was
        there before is replaced. load() reads it. Raises OSError.

        With `every` it writes nothing now, but after every `every` iterations from now on, at the
        end of the call that runs or submits the last of them. The same save() again, in the loop,
        changes nothing; another number replaces this one; 0 or None ends it. A save that fails
        warns: the iteration's result is returned, and the next save is due `every` iterations
        later."""
        if every is not NOW:
            self._progress.plan(path, every)
            return
        iterations = self.iterations
        with shown(f"saving {path}"):
            state_file.save(path, self.state_dict() | {"iterations": iterations})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Loads a file that save() wrote, as load_state_dict() does, and its `iterations`, if it
        has them. Raises OSError, and InvalidInput for another file, or a state that does not
        fit."""
        with shown(f"loading {path}"):
            state = state_file.load(path)
            self.load_state_dict(state)
        self._progress.set(state.get("iterations", self.iterations))
