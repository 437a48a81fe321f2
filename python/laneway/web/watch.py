"""Watch: one thread that asks the service for its status once a second, for all who look."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import pwd
import threading
import time
from collections.abc import Callable

from laneway import errors
from laneway.jobs.service import Service, connect
from laneway.web import limits
from laneway.web.changes import Document, difference, happened


@dataclasses.dataclass(frozen=True)
class Look:
    """What was seen last. `status` is None while no service answers; then `why` has the sentence.
    `change` is what a page that has the look before needs, None where it must take all."""

    number: int
    at: float
    status: Document | None
    why: str
    text: str  # the status as JSON
    change: str | None
    minute: str  # the last minute as JSON: see _minute
    events: tuple[Document, ...]
    whose: str  # what the user of this process may do, as JSON


class Watch:
    """Thread-safe. `ask` gives a status, and raises errors.Error; `close_asking` ends what it
    holds. `on_look` is called in the watch's thread after each look."""

    def __init__(
        self,
        ask: Callable[[], Document],
        close_asking: Callable[[], None] = lambda: None,
        on_look: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask, self._close_asking, self._on_look = ask, close_asking, on_look
        self._clock = clock
        self._stop = threading.Event()
        self._events: collections.deque[Document] = collections.deque(maxlen=limits.HAPPENED)
        self._samples: collections.deque[tuple[float, Document]] = collections.deque(
            maxlen=limits.MINUTE
        )
        self._known: Document | None = None  # the last status, also while no service answers
        self._look = Look(0, clock(), None, "not asked yet", "null", None, "null", (), "null")
        self._looked_at = time.monotonic()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to look, in a thread of its own, until stop()."""
        self._thread = threading.Thread(target=self._run, name="laneway-web-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. One that waits for a service that says nothing is left behind: it ends
        with the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(limits.CONNECT_S * 2)

    def seen(self) -> Look:
        """The last look. Of a service that has said nothing for long: that it is away."""
        look, silent_s = self._look, time.monotonic() - self._looked_at
        if look.status is None or silent_s < limits.SILENT_S:
            return look
        why = f"the service has not answered for {silent_s:.0f} s"
        return dataclasses.replace(look, status=None, why=why, text="null", change=None)

    def look(self) -> None:
        """Asks once."""
        status, why = None, ""
        try:
            status = self._ask()
        except errors.Error as error:
            why = str(error)
        try:
            self._take(status, why)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A service of another release: said, and asked again; the watch goes on.
            self._known = None
            said = f"{type(error).__name__}: {error}"
            self._take(None, f"its status is not what this release of laneway knows ({said})")
        self._on_look()

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._stop.is_set():
            self.look()
            next_at = max(next_at + limits.STATUS_EVERY_S, time.monotonic())
            self._stop.wait(next_at - time.monotonic())
        self._close_asking()

    def _take(self, status: Document | None, why: str) -> None:
        now, before = self._clock(), self._look
        new: list[Document] = []
        change = None
        if status is None:
            if before.status is not None:
                new = [{"kind": "service", "text": f"no service answers: {why}", "job": None}]
        else:
            if before.status is None and self._known is not None:
                new = [{"kind": "service", "text": "the service answers again", "job": None}]
            if self._known is not None:
                new += happened(self._known, status)
            if before.status is not None:
                change = json.dumps(difference(before.status, status))
            if self._known is None or self._known["service"]["pid"] != status["service"]["pid"]:
                self._samples.clear()
            self._known = status
            self._samples.append((now, _sample(status)))
        # The clock of the machine may be set back: what seems to come is dropped too.
        self._events.extend({"at": now, **event} for event in new)
        kept = tuple(e for e in self._events if abs(now - e["at"]) <= limits.HAPPENED_S)
        self._look = Look(
            number=before.number + 1,
            at=now,
            status=status,
            why=why,
            text=json.dumps(status),
            change=change,
            minute=json.dumps(_minute(list(self._samples))),
            events=kept,
            whose=before.whose if status is None else json.dumps(_whose(status)),
        )
        self._looked_at = time.monotonic()


def _sample(status: Document) -> Document:
    return {
        "device_s": {job["id"]: job["device_time_s"] for job in status["jobs"]},
        "running": {lane["id"]: lane["running"] for lane in status["lanes"]},
    }


def _minute(samples: list[tuple[float, Document]]) -> Document:
    """{"window_s", "device_s": {job: seconds of the device in it, where above 0}, "lanes": [{"at",
    "running": {lane: job or null}}], oldest first}."""
    if not samples:
        return {"window_s": 0.0, "device_s": {}, "lanes": []}
    (first_at, first), (last_at, last) = samples[0], samples[-1]
    used = {}
    for job, seconds in last["device_s"].items():
        grown = (seconds or 0.0) - (first["device_s"].get(job) or 0.0)
        if grown > 0:
            used[job] = round(grown, 6)
    lanes = [{"at": round(at, 3), "running": one["running"]} for at, one in samples]
    return {"window_s": max(last_at - first_at, 0.0), "device_s": used, "lanes": lanes}


def _whose(status: Document) -> Document:
    """{"user", "operator"}: who asks, and whether the service takes him for an operator, who may
    change everybody's jobs: root, or the user of the service."""
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    try:
        owner = pathlib.Path(f"/proc/{status['service']['pid']}").stat().st_uid
    except OSError:
        owner = None
    return {"user": user, "operator": uid == 0 or uid == owner}


class Asked:
    """A connection that is made when it is needed, and again after the service was gone. One thread
    uses it."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._service: Service | None = None

    def status(self) -> Document:
        try:
            if self._service is None:
                self._service = connect(self._address, timeout=0.0)
            return self._service.status()
        except errors.Error:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection."""
        service, self._service = self._service, None
        if service is not None:
            service.close()
