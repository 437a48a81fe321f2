"""The other user of the bench neighbours.

    python -m bench.neighbours_probe ADDRESS BYTES

makes a job with an image of so many bytes, which has a whole copy outside of the pool, and prints
"ready". From a line "go" on its image leaves and is brought in without pause; at the line "stop"
the number of images that came in is printed. The end of the input ends it."""

from __future__ import annotations

import select
import sys

import torch

import laneway

from .eviction import NAME, wide_step


def main(words: list[str]) -> int:
    torch.set_num_threads(1)
    with laneway.connect(words[0]) as service, wide_step(service, int(words[1])) as step:
        step(torch.zeros(1, 1), torch.zeros(1, 1)).item()
        _bring_in(service)  # it is clean from now on
        print("ready", flush=True)
        while sys.stdin.readline() == "go\n":
            images = 0
            while not select.select([sys.stdin], [], [], 0)[0]:
                _bring_in(service)
                images += 1
            if sys.stdin.readline() != "stop\n":
                break
            print(images, flush=True)
    return 0


def _bring_in(service: laneway.Service) -> None:
    service.unload(NAME)
    service.load(NAME)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
