"""NVIDIA's multi-process service for the length of a `with` block, in folders of its own: nothing
of the machine's settings changes, and what was started ends with the block."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
ANSWER_S = 10.0


class NoMps(RuntimeError):
    """It cannot be started here; the text says why."""


@contextlib.contextmanager
def mps() -> Iterator[dict[str, str]]:
    """Gives the environment of its clients. Raises NoMps."""
    if shutil.which(CONTROL) is None:
        raise NoMps(f"{CONTROL} is not on this machine")
    # Short: the folder's name is part of a socket's address.
    folder = Path(tempfile.mkdtemp(prefix="mps-"))
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    try:
        _control(environment, "-d")
        # Asking starts nothing, but fails when the daemon is not there.
        _control(environment, command="get_server_list")
        yield environment
    finally:
        with contextlib.suppress(NoMps):
            _control(environment, command="quit")
        _end(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _control(environment: dict[str, str], *words: str, command: str = "") -> None:
    # Into a file: a daemon may keep what it was given as its output, and a pipe would then not end.
    with tempfile.TemporaryFile("w+") as said:
        try:
            done = subprocess.run(
                [CONTROL, *words],
                input=f"{command}\n" if command else "",
                stdout=said,
                stderr=said,
                text=True,
                timeout=ANSWER_S,
                env=os.environ | environment,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoMps(f"{CONTROL} {command or ' '.join(words)}: {error}") from None
        said.seek(0)
        text = said.read().strip()
    if done.returncode != 0:
        why = text or f"it ended with {done.returncode}"
        raise NoMps(f"{CONTROL} {command or ' '.join(words)}: {why}")


def _end(folder: Path) -> None:
    """Ends the daemon if it did not quit when told."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / f"{CONTROL}.pid").read_text())
        if CONTROL in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGKILL)
