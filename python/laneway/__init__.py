"""Laneway: many training and inference jobs on one device, in one pool of memory.

with laneway.embedded(pool="512MiB") as service:
    step = laneway.train_step(model, loss_fn, optimizer, service=service)
    for x, y in batches:
        loss = step(x, y)
    step.sync_to(model, optimizer)

Names are loaded when they are first used: `import laneway` alone, and what the command line needs
(errors, jobs/service, native), does without torch.
"""

from __future__ import annotations

import importlib
import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laneway import compile_backend as compile_backend
    from laneway.errors import (
        CaptureError,
        DeviceLost,
        Error,
        GraphError,
        InvalidInput,
        JobFailed,
        LayoutError,
        OutOfMemory,
        Quarantined,
        Refused,
        ServiceUnavailable,
        VerificationError,
    )
    from laneway.jobs.attachment import Attachment, attach
    from laneway.jobs.calls.job import Future
    from laneway.jobs.calls.weight_files import save_weights
    from laneway.jobs.inference_job import Inference, inference
    from laneway.jobs.service import Service, connect, embedded
    from laneway.jobs.step import TrainStep
    from laneway.jobs.training import step, train_step

__version__: str  # of the file VERSION, which is read at the first use

__all__ = [
    "Attachment",
    "CaptureError",
    "DeviceLost",
    "Error",
    "Future",
    "GraphError",
    "Inference",
    "InvalidInput",
    "JobFailed",
    "LayoutError",
    "OutOfMemory",
    "Quarantined",
    "Refused",
    "Service",
    "ServiceUnavailable",
    "TrainStep",
    "VerificationError",
    "attach",
    "connect",
    "embedded",
    "inference",
    "save_weights",
    "step",
    "train_step",
]

# Where each name of __all__ is, where it is not errors. No module may have the name of one, because
# importing a module sets an attribute of the package.
_HOMES = {
    "Attachment": "jobs.attachment",
    "Future": "jobs.calls.job",
    "Inference": "jobs.inference_job",
    "Service": "jobs.service",
    "TrainStep": "jobs.step",
    "attach": "jobs.attachment",
    "connect": "jobs.service",
    "embedded": "jobs.service",
    "inference": "jobs.inference_job",
    "save_weights": "jobs.calls.weight_files",
    "step": "jobs.training",
    "train_step": "jobs.training",
}


# Modules whose own names users call: laneway.compile_backend.report().
_MODULES = ("compile_backend",)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = pathlib.Path(__file__).with_name("VERSION").read_text().strip()
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"laneway.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"laneway.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
