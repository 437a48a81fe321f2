"""A lanewayd of the bench's own: a context manager that starts one on a temporary address, waits
until it is ready, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .harness import SANITIZED, single_thread_environment
from .report import ROOT

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


def daemon_program() -> Path:
    """lanewayd: from $LANEWAY_BUILD if that is set, else from the release build, else the newest
    there is. The FileNotFoundError says how to get one."""
    root = ROOT / "build"
    given = os.environ.get("LANEWAY_BUILD")
    programs = [(Path(given) if given else root / "release") / "bin/lanewayd"]
    if not given:
        others = [p for p in root.glob("*/bin/lanewayd") if p.parts[-3] not in SANITIZED]
        programs += sorted(others, key=lambda program: program.stat().st_mtime, reverse=True)
    for program in programs:
        if program.exists():
            return program
    raise FileNotFoundError("lanewayd is not built: ./dev build")


class Daemon:
    """`cores` is where it and all that it starts stay (empty: anywhere); `words` are more of its
    command line."""

    def __init__(
        self,
        pool: str | int = "512MiB",
        cores: Sequence[int] = (),
        words: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="laneway-bench-")
        self.folder = Path(self._folder)
        self.address = f"ipc://{self._folder}/laneway.sock"
        command = [str(daemon_program()), "--address", self.address, "--pool", str(pool)]
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning", *words],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | single_thread_environment(1) | (environment or {}),
            preexec_fn=(lambda: os.sched_setaffinity(0, set(cores))) if cores else None,
        )
        assert self.process.stdout
        heard = select.select([self.process.stdout], [], [], READY_TIMEOUT_S)[0]
        if not heard:  # whatever it opens hangs
            self.process.kill()
        line = self.process.stdout.readline()
        self.ready_s = time.perf_counter() - started
        if "ready" not in line:
            code = self.process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)
            said = line.strip() or (
                "it said nothing" if heard else f"it was not ready in {READY_TIMEOUT_S:.0f} s"
            )
            raise RuntimeError(f"lanewayd ended with {code}: {said}")

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            print("bench: lanewayd did not stop; killed", file=sys.stderr)
            self.process.kill()
            self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pid_of(self, program: str) -> int:
        """The process id of its child of this name ("laneway-broker"). LookupError: there is
        none."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text()
                command = os.path.basename(os.readlink(folder / "exe"))
            except OSError:  # gone, or somebody else's
                continue
            parent = int(fields.rpartition(")")[2].split()[1])
            if parent == self.process.pid and command == program:
                return int(folder.name)
        raise LookupError(f"lanewayd has no child {program}")


def cpu_s(pid: int) -> float:
    """Seconds of processor time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_all_s(pid: int) -> float:
    """Seconds of processor time that the process and its living descendants have used, to the
    nanosecond where the kernel counts them."""
    clock = (~pid << 3) | 2  # the process's own clock, as clock_getcpuclockid(3) names it
    return time.clock_gettime(clock) + sum(cpu_of_all_s(child) for child in children_of(pid))


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`, now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == pid:
            found.append(int(folder.name))
    return found
