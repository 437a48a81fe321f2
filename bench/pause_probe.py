"""The eager script of the pause bench: trains until it is killed.

    python -m bench.pause_probe MODEL FILE

goes on from FILE if that is there, writes it every ten steps (a new file, then its name, so that a
kill leaves the former one), and prints the number of each step when it is done, and the time."""

from __future__ import annotations

import os
import sys
import time

import torch

from .models import make

STEPS_BETWEEN_FILES = 10


def main(arguments: list[str]) -> int:
    name, path = arguments
    torch.set_num_threads(1)
    work = make(name)
    batches = [work.batch(i) for i in range(4)]
    done = 0
    if os.path.exists(path):
        saved = torch.load(path)
        work.model.load_state_dict(saved["model"])
        work.optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        done = saved["done"]
    while True:
        *inputs, target = batches[done % len(batches)]
        work.optimizer.zero_grad()
        output = work.model(*inputs) if work.loss_fn else work.model(*inputs, target)
        result = work.loss_fn(output, target) if work.loss_fn else output
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
        work.optimizer.step()
        loss.item()
        done += 1
        print(done, time.perf_counter(), flush=True)
        if done % STEPS_BETWEEN_FILES == 0:
            state = {
                "model": work.model.state_dict(),
                "optimizer": work.optimizer.state_dict(),
                "random": torch.get_rng_state(),
                "done": done,
            }
            torch.save(state, f"{path}.new")
            os.replace(f"{path}.new", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
