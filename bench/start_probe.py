"""The process that the start bench starts afresh for every sample.

    python -m bench.start_probe ADDRESS

imports torch and laneway and builds mlp, then takes the time of connecting to ADDRESS (empty: of
opening the engine in this process) and from there to the loss of the first training step. Prints
one JSON object: "open_s", "first_s"."""

from __future__ import annotations

import json
import sys
import time

import torch

import laneway
import laneway.jobs.step  # what a step needs is imported by now, as torch is

from .models import make


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)
    work = make("mlp")
    batch = work.batch(0)
    clock = time.perf_counter
    begun = clock()
    service = laneway.connect(arguments[0]) if arguments[0] else laneway.embedded("512MiB")
    opened = clock()
    with service:
        step = laneway.train_step(work.model, work.loss_fn, work.optimizer, service=service)
        step(*batch).item()
        done = clock()
        step.close()
    print(json.dumps({"open_s": opened - begun, "first_s": done - opened}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
