"""The remote host (tests/remote_backend): a device that is none, whose kernels are the CPU's and
whose memory is out of reach, and that an input can break."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from support.daemon import Lanewayd

ROOT = Path(__file__).resolve().parents[3]
# $LANEWAY_REMOTE_HOST, else where the preset of the tests builds it.
LIBRARY = Path(
    os.environ.get(
        "LANEWAY_REMOTE_HOST",
        Path(os.environ.get("LANEWAY_BUILD", ROOT / "build" / "dev"))
        / "tests/remote_backend/liblaneway_remote_host.so",
    )
)

needs_remote_host = pytest.mark.skipif(not LIBRARY.exists(), reason="nothing is built")

# How an input begins that breaks the device: at once, or when its iteration lands.
BREAKS_AT_ONCE = (710.0, -710.0)
BREAKS_WHEN_LANDING = (710.0, -711.0)


class RemoteLanewayd(Lanewayd):
    """A lanewayd on the remote host."""

    def __init__(
        self, *words: str, environment: dict[str, str] | None = None, **options: Any
    ) -> None:
        plugin = {"LANEWAY_CUDA_PLUGIN": str(LIBRARY)}
        environment = plugin | (environment or {})
        super().__init__("--device", "cuda:0", *words, environment=environment, **options)


def breaking(batch: tuple[torch.Tensor, ...], how: tuple[float, float]) -> tuple[torch.Tensor, ...]:
    """The batch with a first input that breaks the device."""
    first = batch[0].clone()
    first.view(-1)[:2] = torch.tensor(how)
    return (first, *batch[1:])
