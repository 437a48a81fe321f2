"""Writes training steps of the bench models as files, for programs that run them without Python.

    write_model_cases.py DIRECTORY NAME…

Each model gets a folder with graph.bin, image.bin (the slots' initial bytes, one behind the other),
inputs.bin (the bytes of the input tensors likewise) and case.json, which says how long each is.
PYTHONPATH has the checkout and its python/.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from bench import models
from laneway.capture.capture import capture_train_step


def write_case(directory: Path, name: str) -> None:
    workload = models.make(name)
    batch = workload.batch(0)
    captured = capture_train_step(workload.model, workload.loss_fn, workload.optimizer, batch)
    inputs: list[dict[str, Any]] = []
    payload = b""
    for value in captured.inputs.values(batch, {}, [workload.optimizer]):
        if isinstance(value, torch.Tensor):
            data = _bytes_of(value)
            inputs.append({"bytes": len(data)})
            payload += data
        else:
            inputs.append({"real": value})
    slots = [{"name": s.name, "kind": int(s.kind), "bytes": s.nbytes} for s in captured.slots]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "graph.bin").write_bytes(captured.encode())
    (directory / "inputs.bin").write_bytes(payload)
    with (directory / "image.bin").open("wb") as image:
        for slot in captured.slots:
            image.write(slot.initial_bytes().numpy().tobytes())
    (directory / "case.json").write_text(json.dumps({"slots": slots, "inputs": inputs}))


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,))
    return flat.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        write_case(Path(sys.argv[1]) / name, name)


if __name__ == "__main__":
    main()
