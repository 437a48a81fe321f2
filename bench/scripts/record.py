"""Record: what a training script of this folder is given, and what the script leaves in it."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..state import bits, tensors


@dataclass(frozen=True)
class Epoch:
    """How long the iterations of an epoch took, data loading included, and how many there were.
    Evaluation and checkpoints behind the last iteration are not in `ns`."""

    ns: int
    steps: int


class Record:
    """A script reads `epochs`, `batches` (of an epoch) and `folder` (for its checkpoints), and
    calls epoch(), loss(), metric() and end(), where its author would print."""

    def __init__(
        self,
        epochs: int,
        batches: int,
        folder: Path,
        pace: Callable[[Epoch | None], None] = lambda done: None,
    ) -> None:
        """`pace` is called before each epoch, with the epoch before it (None before the first), and
        returns when the epoch may begin."""
        self.epochs, self.batches, self.folder = epochs, batches, folder
        self._pace = pace
        self._began: int | None = None
        self._ended, self._steps = 0, 0
        self._losses: list[Any] = []
        self._metrics: list[Any] = []
        self.left: dict[str, Any] = {}  # after end(): what two runs are compared by

    def epoch(self) -> None:
        """The iterations of an epoch begin."""
        self._pace(self.last_epoch())
        self._steps = 0
        self._began = self._ended = time.perf_counter_ns()

    def loss(self, *losses: Any) -> None:
        """An iteration ends; these are its losses: tensors or numbers."""
        self._losses.append([x.detach() if isinstance(x, torch.Tensor) else x for x in losses])
        self._ended = time.perf_counter_ns()
        self._steps += 1

    def metric(self, value: Any) -> None:
        """A tensor, a number or a tuple of numbers that the script computes beside its losses."""
        self._metrics.append(value)

    def last_epoch(self) -> Epoch | None:
        """The epoch that began last, as far as it is done; None before the first."""
        return None if self._began is None else Epoch(self._ended - self._began, self._steps)

    def end(
        self, models: Sequence[torch.nn.Module], optimizers: Sequence[torch.optim.Optimizer]
    ) -> None:
        """The training is over. Reads what two runs are compared by."""
        self.left = {
            "losses": self._losses,
            "metrics": self._metrics,
            "model": [dict(model.state_dict()) for model in models],
            "optimizer": [optimizer.state_dict() for optimizer in optimizers],
            "generator": torch.get_rng_state(),
            "checkpoints": self._checkpoints(),
        }

    def digests(self) -> dict[str, str]:
        """A hash of each entry of `left`."""
        found = {}
        for name, value in self.left.items():
            digest = hashlib.sha256()
            _add(digest, value)
            found[name] = digest.hexdigest()
        return found

    def _checkpoints(self) -> dict[str, Any]:
        """What two runs are compared by of the files that the script saved, by path: the tensors of
        those that torch.save wrote, the bytes of those with tensors in another form."""
        found: dict[str, Any] = {}
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            name = str(path.relative_to(self.folder))
            if path.suffix == ".safetensors":
                found[name] = path.read_bytes()
            elif zipfile.is_zipfile(path):
                saved = torch.load(path, weights_only=False)
                if isinstance(saved, torch.nn.Module):
                    saved = saved.state_dict()
                found[name] = dict(tensors(saved))
        return found


def _add(digest: Any, value: Any) -> None:
    """Adds `value` to the hash: bits of tensors, nested containers, and the text of other values,
    which for numbers is exact."""
    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype} {list(value.shape)}\n".encode())
        digest.update(bits(value.detach()))
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(f"{key}:".encode())
            _add(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)} items\n".encode())
        for item in value:
            _add(digest, item)
    else:
        digest.update(f"{value!r}\n".encode())
