"""Image: a job's state, as an inference joins it; JoinedImage is that of an attached job."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import torch

from laneway.graph.slots import HasSlots, Slot
from laneway.jobs.calls.job import Job
from laneway.jobs.mirrors.mirror import Mirror
from laneway.jobs.service import Service


class Image(Protocol):
    """A job whose state an inference uses. A TrainStep is one, and so is a JoinedImage."""

    @property
    def models(self) -> list[torch.nn.Module]:
        """The models whose parameters and buffers lie in the job's slots."""

    @property
    def service(self) -> Service:
        """The service that runs the job."""

    @property
    def job(self) -> Job | None:
        """The job, if there is one."""

    @property
    def mirror(self) -> Mirror | None:
        """How this process's model follows the job, if it does."""

    def ensure_job(self) -> tuple[HasSlots, Job]:
        """The slots of the job's state, and the job. Raises an Error when there is no job (yet, or
        any more)."""


@dataclasses.dataclass(frozen=True)
class JoinedImage:
    """The image of the attached job `job`: `slots` has a slot for every slot of the job, those with
    names of a model have the model's tensors."""

    service: Service
    job: Job
    models: list[torch.nn.Module]
    slots: list[Slot]
    mirror: Mirror | None = None

    def ensure_job(self) -> tuple[JoinedImage, Job]:
        """The image and the job. Raises ServiceUnavailable after the job was detached."""
        self.job.handle()
        return self, self.job
