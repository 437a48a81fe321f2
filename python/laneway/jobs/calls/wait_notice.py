"""WaitNotice: says in the log why a call of the user's waits, so that no wait looks like a hang."""

from __future__ import annotations

import logging
import time
from typing import Any

from laneway.errors import Error

# A call that waits longer says so, and again whenever it has waited twice as long, or so much more.
FIRST_S = 10.0
_SELDOM_S = 600.0

# Waits that end when other jobs do. Those may be the same program's, which waits for itself then.
_FOR_MEMORY = {
    "pool_full",
    "pool_fragmented",
    "region_too_small",
    "lanes_exhausted",
    "exchange_full",
}

_log = logging.getLogger("laneway")


class WaitNotice:
    """One wait for `job`, which begins now."""

    def __init__(self, job: Any) -> None:
        self._job = job
        self._begin = time.monotonic()
        self._next = FIRST_S

    def heed(self) -> None:
        """To be called again and again while it waits. Logs a warning, to the logger "laneway",
        when it is time for one and the job does not run."""
        waited = time.monotonic() - self._begin
        if waited < self._next:
            return
        self._next = waited + FIRST_S
        try:
            status = self._job.report()["status"]
        except Error:
            return  # the wait itself ends with it
        reason = status and status["reason"]  # no status: the service does not know the job (yet)
        if reason is None:
            return  # it runs, or is about to
        self._next = waited + min(waited, _SELDOM_S)
        _log.warning(
            "laneway: a call of job %r has waited for %.0f s. %s%s",
            self._job.name,
            waited,
            reason["text"],
            " If those are this program's own, it waits for itself: close() one that is done, or "
            "give the service a larger pool, or more room outside of it (staging, spill)."
            if reason["code"] in _FOR_MEMORY
            else "",
        )
