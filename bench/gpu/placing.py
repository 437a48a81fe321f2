"""placing: how fast do a job's weights come into the pool, and back? Two jobs that differ only in
the size of a weight; what the larger one takes longer until it has its memory, for so many bytes
more."""

from __future__ import annotations

import time
from typing import Any

import torch

from .. import stats
from . import laneway_device
from .section import Section

MIB = 1 << 20
LARGE_BYTES = 1 << 30
QUICK_BYTES = 64 << 20
SMALL_BYTES = 1 << 20


class Weight(torch.nn.Module):
    """One weight of `size` bytes, of which a step reads a row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(size // 4096, 1024).fill_(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight[0] * x).sum()


def cases() -> list[str]:
    return ["image"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 5) -> None:
    size = QUICK_BYTES if section.settings.quick else LARGE_BYTES
    rounds = 2 if section.settings.quick else trials
    device = section.settings.device
    weights = {size: Weight(size), SMALL_BYTES: Weight(SMALL_BYTES)}
    with (
        section.attempt("image", "into_gb_per_s", "GB/s"),
        # Room for the weight, its gradient and the update.
        laneway_device.embedded(device, pool=4 * size + 256 * MIB) as service,
    ):
        for way, samples in _rates(section, service, weights, rounds).items():
            note = f"{size // MIB} MiB, embedded"
            rate = stats.median(samples)
            section.add("image", f"{way}_gb_per_s", rate, "GB/s", samples=samples, note=note)
    if section.settings.cuda:
        rate = _plain_rate(size, device)
        section.add("image", "torch_to_gb_per_s", rate, "GB/s", note="tensor.to(device), pageable")


def _rates(
    section: Section, service: Any, weights: dict[int, Weight], rounds: int
) -> dict[str, list[float]]:
    """GB a second into the pool and back, round by round; as many rounds as there is time for."""
    rates: dict[str, list[float]] = {"into": [], "back": []}
    large, small = weights
    for number in range(rounds + 1):
        started = time.monotonic()
        section.calibration.sample()
        times = {size: _seconds(service, w, f"job{number}-{size}") for size, w in weights.items()}
        for way in rates if number else ():  # first libraries load and memory is pinned
            more = max(times[large][way] - times[small][way], 1e-9)
            rates[way].append((large - small) / more / 1e9)
        if number and section.left() < 1.5 * (time.monotonic() - started):
            break
    return rates


def _seconds(service: Any, model: Weight, name: str) -> dict[str, float]:
    """Until the job has its memory with the weight in it, and until the weight is back."""
    import laneway

    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = laneway.train_step(model, None, optimizer, service=service, name=name)
    with step:
        started = time.perf_counter()
        step.prepare(torch.ones(1024))
        placed = time.perf_counter()
        step.state_dict()
        return {"into": placed - started, "back": time.perf_counter() - placed}


def _plain_rate(size: int, device: str) -> float:
    source = torch.empty(size, dtype=torch.uint8).fill_(1)
    rates = []
    for _ in range(3):
        torch.cuda.synchronize(device)
        started = time.perf_counter()
        copy = source.to(device)
        torch.cuda.synchronize(device)
        rates.append(size / (time.perf_counter() - started) / 1e9)
        del copy
    return stats.median(rates)
