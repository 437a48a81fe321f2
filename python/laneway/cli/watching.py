"""What looks again and again: `laneway status --watch` and `laneway wait`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from laneway import errors
from laneway.cli import job_table, view
from laneway.cli.answer_time import answer_timeout
from laneway.cli.screen import Screen
from laneway.cli.tables import duration
from laneway.jobs.control import job_ref
from laneway.jobs.service import Service, connect
from laneway.printable import cut, printable

DONE, FAILED = 0, 1
INTERRUPTED = 128 + signal.SIGINT  # as shells say it

# By state, how a job ended.
_ENDS = {"finished": "has finished", "failed": "failed", "cancelled": "was cancelled"}
# A look costs the service some of what jobs use: the longer the wait, the fewer.
_LOOK_FIRST_S, _LOOK_AGAIN_S = 0.05, 1.0

# In place of the picture before, line by line, which does not flicker; nothing is switched off that
# an end at any moment would have to switch on again.
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class Followed:
    """A service that is looked at again and again, also after it went and came back on its address.
    `said` is what is to be said of that; "" when there is nothing. `clock`: in seconds."""

    def __init__(
        self,
        service: Service,
        reconnect: Callable[[], Service],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service: Service | None = service
        self._reconnect, self._clock = reconnect, clock
        self._gone_since: float | None = None
        self._pid: int | None = None
        self.said = ""

    def look(self) -> dict[str, Any] | None:
        """The status; None while the service is gone."""
        try:
            if self._service is None:
                self._service = self._reconnect()
            status = self._service.status()
        except errors.ServiceUnavailable as error:
            if self._service is not None:
                self.close()
                self._service = None
            if self._gone_since is None:
                self._gone_since = self._clock()
            gone = duration(self._clock() - self._gone_since)
            self.said = f"the service is gone for {gone}, and looked for again: {error}"
            return None
        pid = status["service"]["pid"]
        if self._gone_since is not None:
            gone = duration(self._clock() - self._gone_since)
            other = (
                "" if pid == self._pid else f" as another one, pid {pid}, without the jobs of then"
            )
            self.said = f"the service was gone for {gone}, and is back{other}"
            self._gone_since = None
        self._pid = pid
        return status

    def close(self) -> None:
        if self._service is not None:
            self._service.close()


def watch(service: Service, arguments: argparse.Namespace) -> int:
    """`laneway status --watch`: until Ctrl-C. With --json each status is a line."""
    limit = answer_timeout(arguments)
    followed = Followed(service, lambda: connect(arguments.address, answer_timeout=limit))
    try:
        while True:
            status = followed.look()
            screen = Screen(sys.stdout)
            if arguments.json:
                if status is not None:
                    print(json.dumps(status), flush=True)
            else:
                lines = [] if status is None else view.status_lines(status, screen)
                if followed.said:
                    said = screen.wrapped([screen.text(followed.said)], 0)
                    lines = [*said, "", *lines]
                _show(lines, screen)
            time.sleep(arguments.watch)
    except KeyboardInterrupt:
        if not arguments.json and sys.stdout.isatty():
            print(flush=True)
        return DONE
    finally:
        followed.close()


def _show(lines: list[str], screen: Screen) -> None:
    """One picture: on a terminal in place of the one before, at most as high; elsewhere below it,
    after an empty line."""
    if screen.height is None:
        print("\n".join([*lines, ""]), flush=True)
        return
    room = max(screen.height - 1, 1)
    if len(lines) > room:
        left = len(lines) - room + 1
        rest = f"and {left} more lines: `laneway status` has all"
        lines = [*lines[: room - 1], cut(rest, screen.width or len(rest))]
    text = "".join(f"{line}{_END_OF_LINE}\n" for line in lines)
    print(f"{_HOME}{text}{_END_OF_SCREEN}", end="", flush=True)


def wait(service: Service, arguments: argparse.Namespace) -> int:
    """`laneway wait`: until the job has ended. On a terminal standard error says how far it is."""
    clock = time.monotonic
    begin = clock()
    try:
        first = line = _first_line(service, arguments.ref)
        progress, pause = _Progress(Screen(sys.stderr), first, begin), _LOOK_FIRST_S
        with progress:
            while line is not None and line["state"] not in _ENDS:
                now = clock()
                left = None if arguments.timeout is None else begin + arguments.timeout - now
                if left is not None and left <= 0:
                    break
                progress.show(line, now)
                time.sleep(pause if left is None else min(pause, left))
                pause = min(2 * pause, _LOOK_AGAIN_S)
                line = _line_of(service.status(), first["id"])
    except KeyboardInterrupt:
        return INTERRUPTED
    return _end_of(first, line, arguments)


def _first_line(service: Service, ref: str) -> dict[str, Any]:
    """The job's line: one that has not ended goes before those of the same name that have."""
    jobs = service.status()["jobs"]
    try:
        try:
            return job_ref.line_of([job for job in jobs if job["state"] not in _ENDS], ref)
        except errors.InvalidInput:
            return job_ref.line_of(jobs, ref)
    except errors.InvalidInput as error:
        raise errors.Refused(str(error)) from None


def _line_of(status: dict[str, Any], number: int) -> dict[str, Any] | None:
    return next((job for job in status["jobs"] if job["id"] == number), None)


def _end_of(
    first: dict[str, Any], line: dict[str, Any] | None, arguments: argparse.Namespace
) -> int:
    """Says how the job ended, or that it has not. `line` is None when it is not listed any more."""
    state = None if line is None else line["state"]
    named = f"job {first['id']} ({printable(first['name'])})"
    if state == "finished":
        assert line is not None
        document = {"job": line["id"], "state": state, "iterations": line["iterations"]}
        text = f"{named} has finished after {line['iterations']:,} iterations"
        print(json.dumps(document) if arguments.json else text, flush=True)
        return DONE
    if line is None:
        told = "has ended; the service does not list it any more, nor how it ended"
    elif state in _ENDS:
        why = f": {job_table.reason(line)}" if line["reason"] else ""
        told = f"{_ENDS[state]} after {line['iterations']:,} iterations{why}"
    else:
        why = "" if job_table.reason(line) == "-" else f": {job_table.reason(line)}"
        told = f"has not ended after {arguments.timeout:g} s, and is {state}{why}"
    if arguments.json:
        iterations = None if line is None else line["iterations"]
        print(
            json.dumps({"job": first["id"], "state": state, "iterations": iterations}), flush=True
        )
    print(f"laneway: {named} {told}", file=sys.stderr)
    return FAILED


class _Progress:
    """A line of a terminal that says how far the job is, and is gone at the end. Nothing elsewhere,
    but that a job is quarantined: it then goes on only when it is released."""

    def __init__(self, screen: Screen, first: dict[str, Any], begin: float) -> None:
        self._screen, self._first, self._begin = screen, first, begin
        self._quarantined = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self._write("")

    def show(self, line: dict[str, Any], now: float) -> None:
        quarantined = line["state"] == "quarantined"
        if quarantined and not self._quarantined:
            self._write("")
            print(
                f"laneway: job {line['id']} is quarantined, and waited for until it ends: `laneway "
                f"release {line['id']}` runs it again",
                file=sys.stderr,
                flush=True,
            )
        self._quarantined = quarantined
        self._write(self._text(line, now))

    def _write(self, text: str) -> None:
        if self._screen.width is not None:
            shown = cut(self._screen.text(text), self._screen.width - 1)
            print(f"\r{shown}{_END_OF_LINE}", end="", file=sys.stderr, flush=True)

    def _text(self, line: dict[str, Any], now: float) -> str:
        """The state comes first: the end is what a narrow terminal cuts."""
        done, whole = line["iterations"], line["total_iterations"]
        far = f"{done:,} iterations"
        if whole:
            far = f"{100 * done // whole} %, {done:,} of {whole:,}"
        text = f"{line['state']}, {far}"
        ran, took = done - self._first["iterations"], now - self._begin
        if ran > 0 and took > 0:
            text += f", {ran / took:.1f} a second"
            if whole and whole > done:
                text += f", some {duration((whole - done) * took / ran)} left"
        why = job_table.reason(line)
        return text if why == "-" else f"{text}; {why}"
