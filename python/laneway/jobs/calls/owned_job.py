"""OwnedJob: the job of one step or inference, from its creation to its end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from laneway.errors import ServiceUnavailable
from laneway.jobs.calls.job import Job
from laneway.jobs.control.scheduling import UNSAID, Scheduling, changed
from laneway.native.process import ProcessLock


def _warn_of_deadline(job: Job, told: Scheduling) -> None:
    """Warns when the policy says at admission that the job cannot meet its deadline."""
    if told.deadline is None:
        return
    missed_s = (job.report()["status"] or {}).get("deadline_missed_by_s")
    if missed_s:
        warnings.warn(
            f"job {job.name!r} will miss its deadline of {told.deadline} s by about {missed_s:.1f} "
            "s, as far as the service knows now: set() a later deadline, fewer iterations, or what "
            "its policy ranks by",
            RuntimeWarning,
            stacklevel=2,
        )


class OwnedJob:
    """Thread-safe. Any thread may call close() at any time, also while another thread captures or
    waits for admission; close() takes no lock of theirs, and it ends the wait for admission."""

    def __init__(self, what: str, told: Scheduling = UNSAID) -> None:
        """`told` is what the policy is told of the job."""
        self._what = what
        self._told = told
        self._job: Job | None = None
        self._closed = False
        self._lock = ProcessLock()  # of _told and _job, for set() beside place()

    def check_open(self, name: str | None) -> None:
        """Raises ServiceUnavailable after close()."""
        if self._closed:
            what = self._what if name is None else f"{self._what} {name!r}"
            raise ServiceUnavailable(f"{what} was closed; make a new one to go on")

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def job(self) -> Job | None:
        """The job, also while it waits for admission."""
        return self._job

    def set(self, changes: dict[str, Any]) -> None:
        """Changes what the policy is told of the job, whether it is there already, waits, or will
        be made. Raises what scheduling.changed() and Job.set() do; nothing is changed then."""
        with self._lock:
            told = changed(self._told, changes)
            if self._job is not None:
                self._job.set(changes)
            self._told = told

    def place(self, make: Callable[[Scheduling], Job], timeout: float | None) -> Job:
        """Makes the job with make(what the policy is told), waits until the job has its memory, and
        returns the job. When the wait fails or is interrupted (Ctrl-C), the job is closed. Raises
        the errors of Job.wait_until_placed and check_open.

        Requires: no other thread is inside place()."""
        with self._lock:
            job = self._job = make(self._told)
        try:
            self.check_open(job.name)  # close() may have run before self._job was set
            job.wait_until_placed(timeout)
        except BaseException:
            self._job = None
            job.close()
            raise
        _warn_of_deadline(job, self._told)
        return job

    def give_up(self) -> None:
        """Ends the job after its running iteration; another one can take its place."""
        with self._lock:
            job, self._job = self._job, None
        if job is not None:
            job.close()

    def close(self) -> None:
        """Ends the job after its running iteration. May be called again; then it has no effect."""
        self._closed = True
        job = self._job
        if job is not None:
            job.close()
