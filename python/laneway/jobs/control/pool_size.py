"""The size of a service's pool: what a client asks a service for, and the wait until it is so."""

from __future__ import annotations

import time

from laneway.errors import Refused
from laneway.jobs.control.commanded import Commanded

_LOOK_FIRST_S, _LOOK_AGAIN_S = 0.001, 0.05


def resize(service: Commanded, size: int, timeout: float | None) -> None:
    """Waits until the pool has the size, or somebody has asked for another one. Refused after
    `timeout` seconds."""
    service.command("pool", str(size))
    until = None if timeout is None else time.monotonic() + timeout
    pause = _LOOK_FIRST_S
    while True:
        pool = service.status()["pool"]
        has, wanted = pool["capacity_bytes"], pool["wanted_bytes"]
        if has == wanted:
            return
        if until is not None and time.monotonic() >= until:
            raise Refused(
                f"the pool has {has} bytes, not {wanted}, after {timeout} s: what lies above has "
                "not left yet; `laneway status` shows what there is, and another size can be "
                "asked for"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LOOK_AGAIN_S)
