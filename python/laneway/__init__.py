"""Laneway: many training and inference jobs on one device, in one pool of memory.

with laneway.embedded(pool="512MiB") as service:
    step = laneway.train_step(model, loss_fn, optimizer, service=service)
    for x, y in batches:
        loss = step(x, y)
    step.sync_to(model, optimizer)
"""

from laneway.errors import (
    CaptureError,
    Error,
    GraphError,
    InvalidInput,
    JobFailed,
    OutOfMemory,
    Quarantined,
    Refused,
    ServiceUnavailable,
)
from laneway.inference import Inference, inference
from laneway.job import Future
from laneway.service import Service, connect, embedded
from laneway.step import TrainStep, train_step

__version__ = "0.1.0"

__all__ = [
    "CaptureError",
    "Error",
    "Future",
    "GraphError",
    "Inference",
    "InvalidInput",
    "JobFailed",
    "OutOfMemory",
    "Quarantined",
    "Refused",
    "Service",
    "ServiceUnavailable",
    "TrainStep",
    "connect",
    "embedded",
    "inference",
    "train_step",
]
