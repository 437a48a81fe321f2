"""OwnedJob: the job of one step or inference, from its creation to its end."""

from __future__ import annotations

from collections.abc import Callable

from laneway.errors import ServiceUnavailable
from laneway.jobs.job import Job


class OwnedJob:
    """Thread-safe. Any thread may call close() at any time, also while another thread captures or
    waits for admission; close() takes no lock of theirs, and it ends the wait for admission."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._job: Job | None = None
        self._closed = False

    def check_open(self, name: str | None) -> None:
        """Raises ServiceUnavailable after close()."""
        if self._closed:
            what = self._what if name is None else f"{self._what} {name!r}"
            raise ServiceUnavailable(f"{what} was closed; make a new one to go on")

    def place(self, make: Callable[[], Job], timeout: float | None) -> Job:
        """Makes the job with make(), waits until the job has its memory, and returns the job. When
        the wait fails or is interrupted (Ctrl-C), the job is closed. Raises the errors of
        Job.wait_until_placed and check_open.

        Requires: no other thread is inside place()."""
        job = self._job = make()
        try:
            self.check_open(job.name)  # close() may have run before self._job was set
            job.wait_until_placed(timeout)
        except BaseException:
            self._job = None
            job.close()
            raise
        return job

    def close(self) -> None:
        """Ends the job after its running iteration. May be called again; then it has no effect."""
        self._closed = True
        job = self._job
        if job is not None:
            job.close()
