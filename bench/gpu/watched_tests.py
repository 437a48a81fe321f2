"""Tests that are read while they run. When one crashes its process or does not end, that test has
failed, and another process goes on with those that are left: nothing of the others is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .section import Section

POLL_S = 0.05
FIRST_TAKES = 2  # times what the others may take
LEAVE_S = 5.0  # between asking a process to say where it is and ending it
MOST_PROCESSES = 40  # of one set of tests: where more than that end badly, the device is at fault


@dataclass
class Result:
    """What became of a test. `outcome` is "passed", "failed" or "skipped"."""

    test: str
    outcome: str
    why: str = ""
    recorded: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Collected:
    """The tests that a process is going to run."""

    tests: tuple[str, ...]


@dataclass(frozen=True)
class Started:
    test: str


Event = Collected | Started | Result


@dataclass(frozen=True)
class SuiteOfTests:
    """A set of tests. `command` gives the words of a process from the tests that need not run any
    more; what it writes to `lines`, or to its output where that is None, `understand` makes events
    of, a line at a time."""

    name: str
    command: Callable[[list[str]], list[str]]
    understand: Callable[[str], Event | None]
    cwd: Path
    environment: Mapping[str, str]
    output: Path
    lines: Path | None = None
    tests: tuple[str, ...] = ()  # where no event says them
    # A failure may have lost the device to its process: the others then run in another one.
    fresh_after_failure: bool = False


class WatchedTests:
    """One set of tests, in as many processes as it needs. `report` is told every result once."""

    def __init__(
        self,
        section: Section,
        program: SuiteOfTests,
        limit_s: float,
        report: Callable[[str, Result], None],
    ) -> None:
        self._section, self._program, self._limit_s = section, program, limit_s
        self._report = report
        self._done: list[str] = []
        self._expected = dict.fromkeys(program.tests)  # in their order
        self._processes = 0
        self.finished = False
        self._start()

    def poll(self) -> None:
        """Hears what is new; ends what takes too long; starts what is to go on."""
        code = self._process.poll()
        self._read()
        if self._failed and self._program.fresh_after_failure:
            self._end(signal.SIGKILL)
            self._again()
        elif self._section.left() <= 0.0:
            self._end()
            self._read()
            self._finish("there was no time left")
        elif code is not None:
            self._ended(code)
        elif self._under_way and time.monotonic() - self._since > self._limit():
            self._end()
            self._read()
            self._lost(f"it did not end in {self._limit():.0f} s")

    def _limit(self) -> float:
        """The first one reads libraries that nobody has read before."""
        return self._limit_s if self._done else FIRST_TAKES * self._limit_s

    def _start(self) -> None:
        program = self._program
        self._processes += 1
        self._under_way: str | None = None
        self._failed = False
        self._before = len(self._done)
        for path in (program.output, program.lines):
            if path is not None:
                path.write_bytes(b"")
        with program.output.open("ab") as output:
            self._process = subprocess.Popen(
                program.command(self._done),
                cwd=program.cwd,
                env=os.environ | program.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._reader = (program.lines or program.output).open(errors="replace")
        self._partial = ""

    def _read(self) -> None:
        for line in self._reader:
            self._partial += line
            if not line.endswith("\n"):
                break
            text, self._partial = self._partial, ""
            self._take(self._program.understand(text.rstrip("\n")))
            if self._failed and self._program.fresh_after_failure:
                break

    def _take(self, event: Event | None) -> None:
        if isinstance(event, Collected):
            self._expected |= dict.fromkeys(event.tests)
        elif isinstance(event, Started):
            self._under_way, self._since = event.test, time.monotonic()
        elif isinstance(event, Result) and event.test not in self._done:
            self._under_way = None
            self._failed = self._failed or event.outcome == "failed"
            self._done.append(event.test)
            self._report(self._program.name, event)

    def _ended(self, code: int) -> None:
        how = f"ended with {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
        if self._under_way:
            self._lost(f"its process {how}: {self._said()}")
        elif self._left() and len(self._done) > self._before:
            self._again()  # it said after a test that it can run no more
        elif self._left() or not self._done or code < 0 or (code > 0 and not self._failed):
            self._section.test(self._program.name, "ran", False, f"{how}: {self._said()}")
            self._finish("their process ended before them")
        else:
            self._finish("")

    def _lost(self, why: str) -> None:
        """The test under way has failed and its process is gone."""
        assert self._under_way
        self._take(Result(self._under_way, "failed", why))
        self._again()

    def _again(self) -> None:
        if not self._left():
            self._finish("")
        elif self._section.left() > 0.0 and self._processes < MOST_PROCESSES:
            self._print()
            self._start()
        else:
            self._finish(f"{self._processes} processes ended badly before them")

    def _finish(self, why: str) -> None:
        self._print()
        self.finished = True
        if left := self._left():
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            self._section.leave_out(f"{self._program.name}: {left[0]}{more}: {why}")

    def _left(self) -> list[str]:
        return [test for test in self._expected if test not in self._done]

    def _end(self, number: int = signal.SIGABRT) -> None:
        """Python's processes say on SIGABRT where each of their threads is."""
        self._process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)  # one that waits in the driver stays behind

    def _said(self) -> str:
        """The line of its output that tells most."""
        lines = self._program.output.read_text(errors="replace").strip().splitlines()
        errors = [line for line in lines if "Error" in line]
        return ((errors or lines or ["it printed nothing"])[-1]).strip()[:300]

    def _print(self) -> None:
        """What it printed goes to the section's own output."""
        self._reader.close()
        print(f"-- {self._program.name}, process {self._processes}", flush=True)
        print(self._program.output.read_text(errors="replace")[-(1 << 18) :], flush=True)


def watch(running: Iterable[WatchedTests]) -> None:
    """Until all of them have finished."""
    left = list(running)
    while left:
        for tests in left:
            tests.poll()
        left = [tests for tests in left if not tests.finished]
        time.sleep(POLL_S)
