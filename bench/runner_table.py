"""The runners of all benches by name; bench/worker.py makes one for each variant."""

from __future__ import annotations

from .gpu.runners import make_on_device
from .models import Workload
from .runners import (
    Eager,
    EagerBesideEmbedded,
    Embedded,
    EmbeddedInFlight,
    Inductor,
    Runner,
    Service,
    ServiceInFlight,
)

RUNNERS = {
    "eager": Eager,
    "inductor": Inductor,
    "eager_beside_embedded": EagerBesideEmbedded,
    "embedded": Embedded,
    "embedded_inflight2": EmbeddedInFlight,
    "service": Service,
    "service_inflight2": ServiceInFlight,
}


def make_runner(name: str, work: Workload, device: str | None = None) -> Runner:
    """The runner `name`: one of RUNNERS or, with a `device`, one of bench/gpu/runners.py."""
    return RUNNERS[name](work) if device is None else make_on_device(name, work, device)
