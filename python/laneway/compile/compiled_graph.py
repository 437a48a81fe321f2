"""CompiledGraph: the callable that torch.compile runs in place of one of its graphs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from laneway.compile.compile_notices import warn_user
from laneway.compile.compile_options import CompileOptions, forget_service, service_for
from laneway.compile.graph_job import GraphJob
from laneway.compile.graph_results import Unfit
from laneway.compile.tracked_weights import OtherLayout
from laneway.compile.weight_image import image_of
from laneway.errors import (
    CaptureError,
    DeviceLost,
    Error,
    GraphError,
    JobFailed,
    OutOfMemory,
    Quarantined,
    Refused,
    ServiceUnavailable,
)

# Models of one class share the code that torch compiled for it. Each set of weights has a job of
# its own up to this many; then the one used longest ago ends.
_MOST_JOBS = 8

# Errors of the service, not of the graph: they are raised, and another call may succeed.
_OF_THE_SERVICE = (ServiceUnavailable, OutOfMemory, Refused, DeviceLost, Quarantined)


class CompiledGraph:
    """`code` is the graph; of its arguments those at `weights` (with their `names`) are state of
    the jobs, those at `derived` follow from the shapes of the others. Results and errors are always
    eager's: a graph that cannot give them as a job runs eagerly, and one warning names the reason.
    Thread-safe."""

    def __init__(
        self,
        code: Callable[..., Sequence[Any]],
        weights: dict[int, str],
        derived: frozenset[int],
        name: str,
        options: CompileOptions,
    ) -> None:
        self._code = code
        self._weights = weights
        self._derived = derived
        self._options = options
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._jobs: list[GraphJob] = []  # the one that was used last is first
        self.name = name
        self.reason: str | None = None  # why it runs eagerly

    def __call__(self, *arguments: Any) -> Sequence[Any]:
        if self.reason is not None:
            return self._code(*arguments)
        if self._pid != os.getpid():  # after fork(): the jobs are the parent's
            self._pid, self._lock, self._jobs = os.getpid(), threading.RLock(), []
        try:
            results = self._run(arguments)
            if results is not None:
                return results
            failed: Exception = Unfit(
                "a result is a view of an argument whose layout its copy in the job does not have"
            )
        except _OF_THE_SERVICE:
            raise
        except Exception as error:
            failed = error
        if isinstance(failed, (CaptureError, GraphError)):
            self.run_eagerly(str(failed), failed)
            return self._code(*arguments)
        results = self._code(*arguments)  # raises eager's error, if eager raises one
        kind = "" if isinstance(failed, Error) else f"{type(failed).__name__}: "
        self.run_eagerly(f"eager execution takes what its job fails on: {kind}{failed}", failed)
        return results

    def run_eagerly(
        self, reason: str, error: Exception | None = None, quietly: bool = False
    ) -> None:
        """From now on the graph runs eagerly. Raises a laneway.Error instead if the options are
        strict, `error` if it is one."""
        self.close()
        if self._options.strict:
            if isinstance(error, Error):
                raise error
            raise Unfit(reason) from error
        self.reason = reason
        if not quietly:
            warn_user(f"{self.name} runs eagerly, not as a job of Laneway: {reason}")

    def jobs(self) -> list[str]:
        """The names of its jobs."""
        with self._lock:
            return [job.image.name for job in self._jobs if not job.image.closed]

    def close(self) -> None:
        """Releases its jobs, which end unless other graphs use them."""
        with self._lock:
            self._jobs = []

    def _run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        job = self._job_for(arguments)
        try:
            return job.run(arguments)
        except OtherLayout:
            job.image.close()
        except ServiceUnavailable:
            job.image.close()
            service = job.image.service
            forget_service(service)
            if not service.closed:  # the service ended the job
                raise
        except JobFailed:
            job.image.close()
            raise
        return self._job_for(arguments).run(arguments)

    def _job_for(self, arguments: Sequence[Any]) -> GraphJob:
        """The job that has most of the call's weights, or a new one when none has any."""
        with self._lock:
            jobs = self._jobs
            if any(job.image.closed for job in jobs):  # closed by another graph or the weights' end
                jobs[:] = [job for job in jobs if not job.image.closed]
            best = _best(jobs, arguments)
            if best is not None:
                if best is not jobs[0]:
                    jobs.remove(best)
                    jobs.insert(0, best)
                return best
            job = self._new_job(arguments)
            jobs.insert(0, job)
            del jobs[_MOST_JOBS:]
            return job

    def _new_job(self, arguments: Sequence[Any]) -> GraphJob:
        # Tensors whose changes torch does not count are inputs of each call.
        weights = {
            position: name
            for position, name in self._weights.items()
            if not arguments[position].is_inference()
        }
        for argument in arguments:
            if isinstance(argument, torch.Tensor) and type(argument) not in _PLAIN:
                raise Unfit(f"an argument is a {type(argument).__name__}, not a plain tensor")
        image = image_of(
            [arguments[position] for position in weights],
            list(weights.values()),
            service_for(self._options),
            self._options,
            self.name,
        )
        fed = [p for p in range(len(arguments)) if p not in weights and p not in self._derived]
        return GraphJob(self._code, list(weights), fed, image)


def _best(jobs: list[GraphJob], arguments: Sequence[Any]) -> GraphJob | None:
    if len(jobs) == 1 and jobs[0].may_be_of(arguments):
        return jobs[0]
    best = max(jobs, key=lambda job: job.known(arguments), default=None)
    return best if best is not None and best.known(arguments) else None


_PLAIN = (torch.Tensor, torch.nn.Parameter)
