"""OwnedJob: the one job that a step or an inference has, or is waiting for."""

from __future__ import annotations

from collections.abc import Callable

from laneway.errors import ServiceUnavailable
from laneway.jobs.job import Job


class OwnedJob:
    """close() may come from any thread at any moment, also while another one captures or waits for
    admission: it waits for neither's lock, so that the wait ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._job: Job | None = None
        self._closed = False

    def check_open(self, name: str | None) -> None:
        """Raises ServiceUnavailable after close."""
        if self._closed:
            what = self._what if name is None else f"{self._what} {name!r}"
            raise ServiceUnavailable(f"{what} was closed; make a new one to go on")

    def place(self, make: Callable[[], Job], timeout: float | None) -> Job:
        """make(), once it has its memory. Only one thread at a time. The job is closed when that
        fails: nobody else would ever hold it, after Ctrl-C too. Raises as Job.wait_until_placed
        and check_open."""
        job = self._job = make()
        try:
            self.check_open(job.name)  # close() may have come before it could see this job
            job.wait_until_placed(timeout)
        except BaseException:
            self._job = None
            job.close()
            raise
        return job

    def close(self) -> None:
        """Ends the job; idempotent. A running iteration ends first."""
        self._closed = True
        job = self._job
        if job is not None:
            job.close()
