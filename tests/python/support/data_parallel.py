"""One of two processes that run a block of docs/porting.md: `data_parallel.py FOLDER RANK` runs
FOLDER/block.py, and leaves its losses, weights and optimizer in FOLDER/leftRANK.pt."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import laneway
from laneway.jobs import step
from support.vector_math import prepare_vector_math


def main() -> None:
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    prepare_vector_math()
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    torch.manual_seed(0)  # the same weights in both
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3), nn.LogSoftmax(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    loader = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(12)]
    known = {"laneway": laneway, "torch": torch, "F": F, "model": model, "loader": loader}
    known |= {"optimizer": optimizer, "losses": []}
    with laneway.embedded("64MiB") as service:
        step.default_service = lambda: service
        exec(compile((folder / "block.py").read_text(), "docs/porting.md", "exec"), known)
        left = {"losses": known["losses"], "model": model.state_dict()}
        torch.save(left | {"optimizer": optimizer.state_dict()}, folder / f"left{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
