"""Runs the sections of gpu-check, each in a process group of its own with a limit of its own: a
crash or a hang of one loses nothing of the others. Standard library only.

A section's process (bench/gpu/section.py) appends one JSON object a line to a file; what is there
is in the report as soon as it is read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from check_report import RAN, SectionResult

TOTAL_S = 470.0  # the whole run, unpacking included: it ends within 8 minutes
GRACE_S = 4.0  # between asking a section to end and ending it
KILLED_S = 4.0  # until what was ended is gone
POLL_S = 0.05
LOG_TAIL = 15
# In the environment of a section and of all that it starts: which section of which run they are of.
MARK = "LANEWAY_GPU_CHECK_SECTION"


@dataclasses.dataclass(frozen=True)
class Section:
    """`budget_s` is what it is planned with, `least_s` that below which it is not begun.
    `background` ones run beside those that time nothing; a `timed` one waits for them to end.
    `by_name` ones run only when --only names them."""

    name: str
    question: str
    budget_s: float
    least_s: float = 5.0
    timed: bool = True
    background: bool = False
    by_name: bool = False


SECTIONS = (
    Section("machine", "what is this machine?", 12, timed=False),
    Section("contact", "eight questions to a GPU that nobody has met", 430, by_name=True),
    Section("compile", "torch.compile's caches, filled beside the tests", 150, background=True),
    Section("conformance", "does the device do what its contract says?", 35, timed=False),
    # A lanewayd on a GPU takes two seconds to start, some more while compilers run beside: on an
    # H200 all of it took 30 seconds.
    Section("engine", "do jobs on the device train as eager CUDA does?", 60, timed=False),
    Section("overhead", "does a step cost less than plain PyTorch?", 105, least_s=15),
    Section("service", "what does the service add to an iteration?", 35),
    Section("sharing", "are four jobs in four lanes faster than otherwise?", 55, least_s=15),
    Section("link", "how fast are copies, and ours against the link?", 35),
    Section("launch", "what do an operator, a context and a first step cost?", 25),
    Section("partition", "what do partitions of multiprocessors change?", 30),
    Section("placing", "how fast do images come into the pool?", 15),
    Section("switching", "what does a request cost whose weights are away?", 40),
)


@dataclasses.dataclass
class Plan:
    """How sections are started. `command` gives the words of a section's process from its name, the
    file for its lines and its seconds."""

    command: Callable[[str, pathlib.Path, float], list[str]]
    environment: dict[str, str]
    folder: pathlib.Path  # of the sections' files
    cwd: pathlib.Path
    log: pathlib.Path  # what sections print, one after another
    deadline: float  # of time.monotonic()


class Running:
    """A section's process and what has come of it so far."""

    def __init__(self, section: Section, result: SectionResult, limit_s: float, plan: Plan) -> None:
        self.section, self.result, self.plan = section, result, plan
        self._lines = plan.folder / f"{section.name}.jsonl"
        self._lines.touch()
        self._output = plan.folder / f"{section.name}.log"
        self._reader = self._lines.open()
        self._partial = ""
        self._started = time.monotonic()
        self._limit_s = result.limit_s = limit_s
        self._mark = f"{plan.folder}:{section.name}"
        result.status = "running"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                plan.command(section.name, self._lines, limit_s),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=plan.environment | {MARK: self._mark},
                cwd=plan.cwd,
                start_new_session=True,
            )

    def poll(self) -> tuple[bool, bool]:
        """Whether there is something new, and whether it has ended (which it does at its limit)."""
        ended = self._process.poll() is not None
        news = self._read()
        if not ended and time.monotonic() - self._started < self._limit_s:
            return news, False
        self.end("" if ended else f"took longer than its {self._limit_s:.0f} s")
        return True, True

    def end(self, why: str = "") -> None:
        """Ends whatever is left of it; `why` it did not end by itself."""
        if why:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        self._signal(signal.SIGKILL)  # also what it started and left
        end_marked(self._mark)
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(KILLED_S)
        self._read()
        self._reader.close()
        result = self.result
        result.seconds = time.monotonic() - self._started
        if why or code is None:
            # A process that waits inside the driver cannot be ended; the others go on beside it.
            lost = "; its process cannot be ended" if code is None else ""
            result.status, result.reason = "stopped", why + lost
        elif code < 0:
            result.status = "crashed"
            result.reason = f"{signal.Signals(-code).name}; {self._tail()}"
        elif code > 0:
            result.status, result.reason = "failed", self._tail()
        else:
            result.status = RAN
        with self.plan.log.open("ab") as log:
            log.write(f"== {self.section.name}: {result.status}\n".encode())
            log.write(self._output.read_bytes()[-(1 << 20) :])

    def _read(self) -> bool:
        news = False
        for line in self._reader:
            self._partial += line
            if not line.endswith("\n"):
                break  # the rest of it is not written yet
            text, self._partial = self._partial, ""
            with contextlib.suppress(json.JSONDecodeError):  # cut off by a crash
                self.result.take(json.loads(text))
                news = True
        return news

    def _tail(self) -> str:
        """The last thing it printed, first its last line."""
        lines = self._output.read_text(errors="replace").strip().splitlines()[-LOG_TAIL:]
        return "\n".join([*lines[-1:], *lines[:-1]]) or "it printed nothing"

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def wanted(names: Sequence[str]) -> list[Section]:
    """The sections of these names, in their order; without names, all that need no name."""
    return [s for s in SECTIONS if (s.name in names if names else not s.by_name)]


def end_marked(mark: str) -> None:
    """Ends what a section left in other process groups, a daemon in a session of its own, say; back
    when it is gone, or after KILLED_S."""
    end, looks_without = time.monotonic() + KILLED_S, 0
    # Twice: one that was just started has no environment for a moment.
    while looks_without < 2 and time.monotonic() < end:
        looks_without = 0 if _kill_marked(f"{MARK}={mark}".encode()) else looks_without + 1
        time.sleep(POLL_S / 5)


def _kill_marked(words: bytes) -> bool:
    """Whether there was one."""
    found = False
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, or somebody else's
            if words in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
                found = True
    return found


def run_all(
    sections: list[Section],
    results: dict[str, SectionResult],
    plan: Plan,
    write: Callable[[], None],
) -> None:
    """Runs the sections in order and calls `write` after every result. A KeyboardInterrupt ends
    what is running and goes on to the caller."""
    beside: list[Running] = []
    current: list[Running] = []
    try:
        for index, section in enumerate(sections):
            if section.timed and not section.background:
                _wait(beside, beside, write)
            limit = _limit(sections[index:], plan)
            result = results[section.name]
            if limit < section.least_s:
                result.status = "left out"
                result.reason = f"{max(limit, 0):.0f} s are left, it needs more"
                write()
                continue
            print(f"gpu-check: {section.name}: {section.question}", file=sys.stderr, flush=True)
            running = Running(section, result, limit, plan)
            if section.background:
                beside.append(running)
                continue
            current = [running]
            _wait(current, beside, write)
        _wait(beside, beside, write)
    except BaseException:
        for running in [*current, *beside]:
            running.end("interrupted")
        raise


def _limit(left: list[Section], plan: Plan) -> float:
    """Seconds for the first of the sections that are left: its own and what others did not use, or
    its part of what there is when that is less than planned."""
    now = plan.deadline - time.monotonic() - GRACE_S
    if left[0].background:
        return min(left[0].budget_s, now)
    planned = sum(section.budget_s for section in left if not section.background)
    if now < planned:
        return left[0].budget_s * now / planned
    return left[0].budget_s + now - planned


def _wait(running: list[Running], beside: list[Running], write: Callable[[], None]) -> None:
    """Until all of `running` have ended; those `beside` are heard too. What ended leaves both."""
    while running:
        changed = False
        for each in {id(r): r for r in [*running, *beside]}.values():
            news, ended = each.poll()
            changed = changed or news
            if ended:
                for group in (running, beside):
                    if each in group:
                        group.remove(each)
        if changed:
            write()
        if running:
            time.sleep(POLL_S)
