"""A plain PyTorch process of the bench consolidation.

    python -m bench.consolidation_probe KIND-SEED…

makes these models, answers one request with each, prints "ready", and stays until it is killed."""

from __future__ import annotations

import sys

import torch

from .models import make


@torch.no_grad()
def main(names: list[str]) -> int:
    torch.set_num_threads(1)
    kept = []
    for name in names:
        kind, seed = name.rsplit("-", 1)
        work = make(kind, int(seed))
        kept.append(work.model.eval())
        kept[-1](*(t[:1] for t in work.batch(0)[:-1]))
        del work
    print("ready", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
