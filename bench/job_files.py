"""A captured job as files of a folder, for programs that run it without the service; job_files.h
names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from laneway.capture.capture import CapturedJobGraph


def write_job_files(
    folder: Path,
    captured: CapturedJobGraph,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor] = (),
) -> None:
    """`inputs` are those of the graph, in its order; `outputs` what it must answer, where a program
    compares it."""
    if len(inputs) != len(captured.graph.inputs) or captured.fixed:
        raise ValueError("only graphs whose inputs are the call's tensors can be measured alone")
    (folder / "graph").write_bytes(captured.encode())
    slots = [f"{slot.nbytes} {int(slot.kind)} {slot.name}\n" for slot in captured.slots]
    (folder / "slots").write_text("".join(slots))
    _write(folder / "image", (slot.initial.untyped_storage() for slot in captured.slots))
    for name, tensors in (("input", inputs), ("output", outputs)):
        storages = (tensor.contiguous().untyped_storage() for tensor in tensors)
        sizes = _write(folder / f"{name}s", storages)
        (folder / f"{name}_sizes").write_text(" ".join(map(str, sizes)))


def _write(path: Path, storages: Iterable[torch.UntypedStorage]) -> list[int]:
    sizes = []
    with path.open("wb") as file:
        for storage in storages:
            data = bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
            sizes.append(len(data))
            file.write(data)
    return sizes
