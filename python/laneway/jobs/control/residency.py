"""Where the image of a job is: what a client asks a service for, and the wait until it is so."""

from __future__ import annotations

import time
from typing import Any

from laneway.errors import Refused
from laneway.jobs.control import job_ref
from laneway.jobs.control.commanded import Commanded

# A device moves a GiB in 20 ms. Where bytes come so slowly that it takes longer, there are as many
# looks as are needed to hit the end: each costs some of what other jobs use.
_LOOK_FIRST_S, _LOOK_AGAIN_S, _LOOK_LAST_S = 0.0005, 0.01, 0.25
OVER = ("finished", "failed", "cancelled", "refused")  # states
_IN_POOL = ("resident", "running", "held", "quarantined")


def ask(service: Commanded, what: str, job: str | int) -> None:
    """Sends the wish: "load", "unload", "pin" or "unpin"."""
    service.command(what, job_ref.text_of(job))


def load(service: Commanded, job: str | int, timeout: float | None) -> None:
    """Waits until all of the image is in the pool. Refused with the reason after `timeout`
    seconds."""

    def there(line: dict[str, Any]) -> bool:
        return line["state"] in _IN_POOL and not line["image"]["arriving"]

    ask(service, "load", job)
    _wait(service, job, "in the pool", there, timeout)


def unload(service: Commanded, job: str | int, timeout: float | None) -> None:
    """Waits until the image has left the pool, but for what stays of it until others need the room.
    Refused when it is pinned, or after `timeout` seconds."""

    def gone(line: dict[str, Any]) -> bool:
        return line["state"] == "away" or line["image"]["pool_bytes"] == 0

    if line_of(service, job)["image"]["pinned"]:
        raise Refused(f"job {job!r} is pinned: unpin it first")
    ask(service, "unload", job)
    _wait(service, job, "out of the pool", gone, timeout)


def line_of(service: Commanded, job: str | int) -> dict[str, Any]:
    """The line of the status of a job that is not over. Raises what job_ref.line_of does."""
    return job_ref.line_of([j for j in service.status()["jobs"] if j["state"] not in OVER], job)


def _wait(
    service: Commanded, job: str | int, where: str, there: Any, timeout: float | None
) -> None:
    until = None if timeout is None else time.monotonic() + timeout
    looks = Looks()
    while True:
        line = line_of(service, job)
        if there(line):
            return
        now = time.monotonic()
        if until is not None and now >= until:
            reason = line["reason"]["text"] if line["reason"] else f"it is {line['state']}"
            raise Refused(f"job {job!r} is not {where} after {timeout} s: {reason}")
        pause = looks.pause(now, line["image"]["moved_bytes"], line["persistent_bytes"])
        time.sleep(pause if until is None else min(pause, until - now))


class Looks:
    """How long to wait before the next look at an image that is being copied: most of the time that
    it will take as fast as it did since the last look."""

    def __init__(self) -> None:
        self._pause = _LOOK_FIRST_S / 2
        self._before: tuple[float, int] | None = None

    def pause(self, now: float, moved: int | None, size: int) -> float:
        """Seconds. `now`: in seconds; `moved`: bytes of `size` that are there, None: no copy is
        under way."""
        self._pause = min(2 * self._pause, _LOOK_AGAIN_S)
        before, self._before = self._before, None if moved is None else (now, moved)
        if before is None or moved is None or moved <= before[1]:
            return self._pause
        left = (size - moved) * (now - before[0]) / (moved - before[1])
        return min(max(0.8 * left, self._pause), _LOOK_LAST_S)
