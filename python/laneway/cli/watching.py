"""What looks again and again: `laneway status --watch` and `laneway wait`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from laneway import errors
from laneway.cli import view
from laneway.cli.screen import Screen, cut
from laneway.cli.tables import duration
from laneway.jobs.service import Service, connect

DONE = 0

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
    followed = Followed(service, lambda: connect(arguments.address))
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
