"""Settable: what steps and inferences share that own a job: set()."""

from __future__ import annotations

from typing import Any

from laneway.jobs.calls.owned_job import OwnedJob


class Settable:
    """A mixin; the class has `_owned`."""

    _owned: OwnedJob

    def set(self, **changes: Any) -> None:
        """Changes what the policy is told of the job: `priority`, `weight`, `total_iterations`,
        `deadline` (seconds from the job's offer), `iteration_s` and `job_class`, as train_step
        takes them; None takes a total, a deadline or a time back. The service decides by them from
        its next decision on, also for a job that waits; before the first call they are those of the
        job to come. Any thread may call it. Raises InvalidInput, which names the value and what it
        may be."""
        self._owned.set(changes)
