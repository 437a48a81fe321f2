"""The demo's trainings: two small models on scikit-learn's digits, with a held-out split, and two
that are large because of a frozen table.

The seed determines all of it: the split, the weights, the order of the batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

BATCH = 64
HELD_OUT = 0.2
TABLE_SHARE = 0.55  # part of the pool: one fits beside the small jobs, two do not
TABLE_WIDTH = 64
TABLE_ITERATIONS = 8000  # long enough that another job must wait for it
LATE_ITERATIONS = 200

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Digits:
    """8x8 grey images of handwritten digits, scaled to 0..1, as (n, 1, 8, 8)."""

    train_x: torch.Tensor
    train_y: torch.Tensor
    held_out_x: torch.Tensor
    held_out_y: torch.Tensor

    @property
    def batches_per_epoch(self) -> int:
        return len(self.train_y) // BATCH


def load_digits(seed: int) -> Digits:
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    data = load()
    x = (data.images / 16).astype("float32")[:, None]
    parts = train_test_split(
        x, data.target, test_size=HELD_OUT, stratify=data.target, random_state=seed
    )
    train_x, held_out_x, train_y, held_out_y = map(torch.from_numpy, parts)
    return Digits(train_x, train_y, held_out_x, held_out_y)


def mlp() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def cnn() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


class TableModel(nn.Module):
    """A classifier over a frozen table of vectors, in which each pixel looks up one for its value:
    much memory and little work."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        vectors = torch.empty(rows, TABLE_WIDTH).uniform_(-1, 1)
        self.table = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.head = nn.Linear(TABLE_WIDTH, 10)
        self.register_buffer("places", torch.arange(64) * 17, persistent=False)
        self._apart = rows // (64 * 17)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = (x.flatten(1) * 16).long()
        return self.head(self.table((values + self.places) * self._apart).mean(1))


def table_model(pool_bytes: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = TableModel(max(64 * 17, int(pool_bytes * TABLE_SHARE) // (4 * TABLE_WIDTH)))
    return model, torch.optim.SGD(model.head.parameters(), lr=0.5, momentum=0.9)


@dataclass(frozen=True)
class Job:
    """One training: its initial model, and the number and order of its batches."""

    name: str
    about: str
    make: Callable[[], tuple[nn.Module, torch.optim.Optimizer]]
    iterations: int
    seed: int
    data: Digits

    loss_fn = staticmethod(nn.functional.cross_entropy)

    def begin(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The initial model and optimizer; also seeds torch's default generator for the training.
        Every call gives the same."""
        torch.manual_seed(self.seed)
        model, optimizer = self.make()
        torch.manual_seed(self.seed + 1)
        return model, optimizer

    def batches(self, count: int, first: int = 0):
        """The batches from the `first` on, up to the `count`-th; fresh tensors each."""
        per_epoch, order, shuffled = self.data.batches_per_epoch, None, None
        for i in range(first, count):
            epoch, place = divmod(i, per_epoch)
            if shuffled != epoch:
                g = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
                order = torch.randperm(len(self.data.train_y), generator=g)
                shuffled = epoch
            picks = order[place * BATCH : (place + 1) * BATCH]
            yield self.data.train_x[picks], self.data.train_y[picks]


def make_jobs(data: Digits, seed: int, epochs: int | None) -> list[Job]:
    per_epoch = data.batches_per_epoch
    return [
        Job("mlp", "64-128-10, AdamW", mlp, (epochs or 300) * per_epoch, seed + 10, data),
        Job(
            "cnn",
            "batch-norm, dropout, SGD with momentum",
            cnn,
            (epochs or 30) * per_epoch,
            seed + 20,
            data,
        ),
    ]


def make_table_jobs(data: Digits, seed: int, pool_bytes: int) -> list[Job]:
    """One job, and another that has no room before the first has ended."""
    make = functools.partial(table_model, pool_bytes)
    about = f"a frozen table of {TABLE_SHARE:.0%} of the pool"
    return [
        Job("table", about, make, TABLE_ITERATIONS, seed + 30, data),
        Job("late", about, make, LATE_ITERATIONS, seed + 40, data),
    ]


class EagerStep:
    """A training step of plain PyTorch, called as Laneway's is."""

    def __init__(self, model: nn.Module, loss_fn: Step, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def train(
    step: Step, job: Job, count: int, seen: Callable[[float], bool] | None = None, first: int = 0
) -> None:
    """Runs the job's batches from the `first` up to the `count`-th through `step`, and reads each
    loss; `seen(loss)` returns whether to continue."""
    for batch in job.batches(count, first):
        loss = step(*batch).item()
        if seen is not None and not seen(loss):
            return


def accuracy(logits: torch.Tensor, y: torch.Tensor) -> float:
    return (logits.argmax(1) == y).double().mean().item()


def evaluate(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Logits in evaluation mode, without gradients."""
    model.eval()
    with torch.no_grad():
        return model(x)
