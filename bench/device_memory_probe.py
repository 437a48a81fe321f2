"""The process that device_memory looks at: jobs of three kinds come and go in one embedded service,
some of them at a time, and the device's memory beyond the pool is read now and then.

    python -m bench.device_memory_probe DEVICE COUNT…

prints one JSON object: {"beyond_pool_bytes": {COUNT: bytes after so many jobs}, "torch_bytes": the
same of torch's own allocator, "replayed_count": iterations that were replayed}. With a fake device
(tests/fake_cuda) in the process, the fake counts; else CUDA says what is free, so other processes
must leave the device alone."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import laneway

from .probe import run_probe

POOL = 64 << 20
AT_A_TIME = 3  # jobs that are there; the oldest makes room for the next
ITERATIONS = 6  # enough for a recording to be made and launched


def model_of(number: int) -> tuple[nn.Module, torch.Tensor]:
    """A product, a convolution or a drawing layer, and a batch for it."""
    kind = number % 3
    if kind == 0:
        return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(4, 16)
    if kind == 1:
        layers = [nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)]
        return nn.Sequential(*layers), torch.randn(4, 1, 8, 8)
    return nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 4)), torch.randn(4, 16)


def used_of_device(device: str) -> Callable[[], int]:
    """Reads how much of the device's memory is in use."""
    driver = ctypes.CDLL("libcuda.so.1")
    if hasattr(driver, "fake_cuda_used"):
        driver.fake_cuda_used.restype = ctypes.c_size_t
        return driver.fake_cuda_used

    def used() -> int:
        free, total = torch.cuda.mem_get_info(device)
        return total - free

    return used


def probe(device: str, counts: list[int]) -> dict[str, Any]:
    torch.zeros(1, device=device)  # the context, and what torch keeps from the first use on
    used = used_of_device(device)
    before = used()
    beyond, torchs, replayed, steps = {}, {}, 0, []
    with laneway.embedded(pool=POOL, device=device) as service:
        for number in range(1, max(counts) + 1):
            model, inputs = model_of(number)
            if len(steps) == AT_A_TIME:
                steps.pop(0).close()
            name = f"job {number}"
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            step = laneway.train_step(
                model, nn.CrossEntropyLoss(), optimizer, service, name=name, replay="on"
            )
            steps.append(step)
            for _ in range(ITERATIONS):
                step(inputs, torch.zeros(4, dtype=torch.long)).item()
            replayed += service.job_report(name)["graphs"][0]["replayed_count"]
            if number in counts:
                beyond[number] = used() - before - POOL
                torchs[number] = torch.cuda.memory_reserved(device)
        for step in steps:
            step.close()
    return {"beyond_pool_bytes": beyond, "torch_bytes": torchs, "replayed_count": replayed}


def main(arguments: list[str]) -> int:
    return run_probe(lambda: probe(arguments[0], [int(text) for text in arguments[1:]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
