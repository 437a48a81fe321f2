"""The same tests against the daemon: `pytest --service daemon` has laneway.embedded() give a
connection to a lanewayd of that pool, policy and number of lanes instead of a service inside the
process. A lanewayd is started when a test first needs one of its kind, shared by the tests of a
module (their jobs end with their connections), and ends with the module.

A test that is about the embedded service itself is marked `embedded_only`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import laneway
from laneway.jobs.service import parse_bytes
from support.daemon import Lanewayd


class Daemons:
    """The lanewayds of one module, by what they were started with."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._running: dict[tuple, Lanewayd] = {}

    def open(
        self,
        pool: str | int | None = "512MiB",
        policy: str = "fifo",
        lanes: int | None = None,
        device: str = "host",
        staging: str | int | None = None,
    ) -> Any:
        """What takes laneway.embedded's place."""
        kind = (parse_bytes("512MiB" if pool is None else pool), policy, lanes, device, staging)
        daemon = self._running.get(kind)
        if daemon is None:
            words = ["--policy", policy, "--device", device, "--standby", "0"]
            words += [] if lanes is None else ["--lanes", str(lanes)]
            words += [] if staging is None else ["--staging", str(parse_bytes(staging))]
            daemon = self._stack.enter_context(Lanewayd(*words, pool=str(kind[0])))
            self._running[kind] = daemon
        return daemon.connect()

    def close(self) -> None:
        self._stack.close()


@contextlib.contextmanager
def daemons_instead_of_embedded() -> Iterator[None]:
    """Within it, laneway.embedded connects to a lanewayd."""
    daemons, real = Daemons(), laneway.embedded
    laneway.embedded = daemons.open
    try:
        yield
    finally:
        laneway.embedded = real
        daemons.close()
