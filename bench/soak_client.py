"""A client of the soak bench, which is killed again and again: trains, and goes on from its file.

    python -m bench.soak_client ADDRESS MODEL FILE THREADS

ends when it is told to (SIGTERM), between two iterations."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import torch

import laneway

from .failover import BATCHES, SEED
from .models import arguments, make

SAVE_EVERY = 5


def make_step(name: str, service: object, job: str) -> laneway.Step:
    work = make(name)
    torch.manual_seed(SEED)  # of the job's own generator
    return laneway.train_step(
        work.model, work.loss_fn, work.optimizer, service=service, name=job, random="own"
    )


def main(words: list[str]) -> int:
    address, name, path, threads = words
    torch.set_num_threads(int(threads))
    ended = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    batches = [arguments(make(name).batch(i)) for i in range(BATCHES)]
    with (
        laneway.connect(address) as service,
        make_step(name, service, f"{name}-client") as step,
    ):
        if os.path.exists(path):
            step.load(path)
        step.save(path, every=SAVE_EVERY)
        while not ended:
            inputs, named = batches[step.iterations % BATCHES]
            step(*inputs, **named).item()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
