"""Places in a worker at which its threads stay as long as a test wants: a disk that stalls, a
moment at which something else is to happen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from support.daemon import wait_until


class Gate:
    """Open at first. Threads that come to `point` (base/fault_point.h) while it is shut stay there:
    those of the first worker, or of all later ones, by the environment of the service."""

    def __init__(self, folder: Path, point: str) -> None:
        self._file = folder / f"gate-{point}"
        self.fault = f"worker.{point}=while:{self._file}"

    def wait(self) -> None:
        """Until a thread stays there."""
        here = self._file.with_suffix(".here")
        wait_until(here.exists, f"a thread at {self._file.name}")
        here.unlink()

    @contextlib.contextmanager
    def shut(self) -> Iterator[None]:
        self._file.touch()
        try:
            yield
        finally:
            self._file.unlink()


def environment(*gates: Gate) -> dict[str, str]:
    """Of a service whose first worker has them."""
    return {"LANEWAY_FAULT": ",".join(gate.fault for gate in gates)}


def later_environment(*gates: Gate) -> dict[str, str]:
    """Of a service whose later workers, the first standby among them, have them."""
    return {"LANEWAY_FAULT_AGAIN": environment(*gates)["LANEWAY_FAULT"]}
