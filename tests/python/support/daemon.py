"""A lanewayd of the test's own: started, looked at, ended. Whatever happens to the test, nothing of
it is left: it ends with the `with` block, and with its parent. Waits are for a condition, with a
deadline that only a hang meets."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import laneway
from laneway.demo.processes import missing_programs, program

DEADLINE_S = 120.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives, once it is true. Looks again now and then."""
    end = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"waited in vain for {what}"
        select.select([], [], [], 0.01)


class Lanewayd:
    """A service with a pool of its own on an address of its own (short, as sockets need it)."""

    def __init__(
        self, *words: str, pool: str = "256MiB", environment: dict[str, str] | None = None
    ) -> None:
        assert missing_programs() is None, f"not built: {missing_programs()}"
        self.folder = Path(tempfile.mkdtemp(prefix="lw-"))
        self.folder.chmod(0o750)
        self.address = f"ipc://{self.folder / 'laneway.sock'}"
        self._words = [str(program("lanewayd")), "--address", self.address, "--pool", pool, *words]
        self._environment = os.environ | (environment or {})
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Lanewayd:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        children = self.children()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(DEADLINE_S)
            finally:
                self.process.kill()
        if self.process is not None:
            self.process.wait()
            self.process.stdout.close()
        log = self.log()
        shutil.rmtree(self.folder, ignore_errors=True)
        left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
        assert not left, f"processes {left} outlived lanewayd, which logged:\n{log}"

    def start(self) -> None:
        """Until it is ready."""
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        line = self.process.stdout.readline() if ready else ""
        assert line.startswith("lanewayd ready"), f"not ready: {line!r}; it logged:\n{self.log()}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def log(self) -> str:
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def connect(self) -> Any:
        return laneway.connect(self.address)

    def children(self, name: str = "laneway-") -> list[int]:
        """Pids of its processes whose name begins so, oldest first."""
        if self.process is None:
            return []
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            try:
                found += [int(pid) for pid in task.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
        return sorted(pid for pid in found if _name(pid).startswith(name))

    def broker(self) -> int:
        (pid,) = wait_until(lambda: self.children("laneway-broker"), "a broker")
        return pid

    def active_worker(self) -> int:
        """As the broker knows it, who may not know yet that it is gone: then it is not it."""

        def active() -> int | None:
            with self.connect() as service:
                workers = service.status()["workers"]
            ready = [w["pid"] for w in workers if w["role"] == "active" and w["state"] == "ready"]
            return next((pid for pid in ready if Path(f"/proc/{pid}").exists()), None)

        return wait_until(active, "an active worker")

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Comes back when lanewayd has reaped it."""
        os.kill(pid, number)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of {pid}")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
