"""Files with the state of a step."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

from laneway.errors import InvalidInput


def save(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Writes `state` aside, to the disk, and gives it the name `path`: whenever the machine stops,
    the file is the one from before or the new one. Raises OSError."""
    target = Path(path)
    descriptor, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())  # mkstemp gives the owner alone the right to read
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state in the file. Raises InvalidInput when the file has none."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        what = str(error).partition("\n")[0]
        raise InvalidInput(f"{os.fspath(path)} is no file of step.save(): {what}") from error
    if not isinstance(state, dict) or not {"model", "optimizer"} <= state.keys():
        raise InvalidInput(
            f"{os.fspath(path)} is no file of step.save(): it lacks 'model' or 'optimizer'"
        )
    iterations = state.get("iterations", 0)
    if not isinstance(iterations, int) or isinstance(iterations, bool) or iterations < 0:
        raise InvalidInput(
            f"{os.fspath(path)} is no file of step.save(): its entry 'iterations' is "
            f"{iterations!r}, and must be a number of iterations"
        )
    return state


def _write(state: dict[str, Any], file: Any) -> None:
    try:
        torch.save(state, file)
    except RuntimeError as error:  # torch's own words for a write that failed
        cause = error.__cause__ or error.__context__
        raise cause if isinstance(cause, OSError) else OSError(str(error)) from error


def _umask() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
