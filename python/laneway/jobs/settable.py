"""Settable: what steps and inferences share that own a job: set(), and how they show it."""

from __future__ import annotations

from typing import Any

from laneway.jobs.calls.job import Job
from laneway.jobs.calls.owned_job import OwnedJob
from laneway.jobs.control.shown import Name, Shown, job_facts


class Settable(Shown):
    """A mixin; the class has `_owned`, the `job` that it uses once it is placed, and its `name`."""

    _owned: OwnedJob
    job: Job | None
    name: str | None

    def shown(self) -> dict[str, Any]:
        """See Shown. It takes no lock: another thread may capture, or wait for admission."""
        if self._owned.closed:
            return ({} if self.name is None else {"name": Name(self.name)}) | {"state": "closed"}
        job = self.job or self._owned.job
        return job_facts(self.name, None if job is None else job.report()["status"])

    def set(self, **changes: Any) -> None:
        """Changes what the policy is told of the job: `priority`, `weight`, `total_iterations`,
        `deadline` (seconds from the job's offer), `iteration_s` and `job_class`, as train_step
        takes them; None takes a total, a deadline or a time back. The service decides by them from
        its next decision on, also for a job that waits; before the first call they are those of the
        job to come. Any thread may call it. Raises InvalidInput, which names the value and what it
        may be."""
        self._owned.set(changes)
