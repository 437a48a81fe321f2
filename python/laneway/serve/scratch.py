"""The folder of a gateway's own files: the bytes and graphs of its models. It is gone when the
gateway ends; what one that was killed has left is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from laneway.errors import InvalidInput

_LOCK = "lock"


class Scratch:
    """`path` is the folder, which others cannot enter. A context manager."""

    def __init__(self, parent: str | None) -> None:
        """Raises InvalidInput for a parent that others may write to."""
        given = parent or os.path.join(tempfile.gettempdir(), f"laneway-serve-{os.geteuid()}")
        try:
            os.makedirs(given, mode=0o700, exist_ok=True)
            facts = os.lstat(given)
        except OSError as error:
            raise InvalidInput(f"--scratch {given}: {error.strerror}") from None
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise InvalidInput(
                f"--scratch {given}: it must be a folder of your own that nobody else may write to"
            )
        _sweep(Path(given))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=given))
            self._lock = open(self.path / _LOCK, "w")  # noqa: SIM115
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock.fileno()).st_nlink:
                break
            self._lock.close()  # another gateway swept it before it was locked

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def folder(self, name: str) -> Path:
        """A new one."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.path))


def _sweep(parent: Path) -> None:
    """Removes folders whose gateway is gone. One that is being made has no lock yet, and stays."""
    for lock in parent.glob(f"*/{_LOCK}"):
        try:
            with open(lock, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # it lives, or is gone
            continue
