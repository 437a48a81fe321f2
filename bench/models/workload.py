"""What a bench trains: a model, its loss, its optimizer and the batches it sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

FORMS = ("default", "foreach", "fused")

# One batch: (inputs…, target), or what the model is called with by name.
Batch = tuple[torch.Tensor, ...] | dict[str, torch.Tensor]


@dataclass
class Workload:
    """One training job. `batch(i)` returns the i-th batch in fresh tensors: the same values for the
    same seed and i, whatever else was drawn from torch's generators. Without a `loss_fn` a batch is
    a dictionary and the loss is the model's own, model(**batch).loss."""

    name: str
    model: nn.Module
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None
    optimizer: torch.optim.Optimizer
    batch: Callable[[int], Batch]

    def loss_of(self) -> Callable[..., torch.Tensor]:
        """What gives the loss of a batch's `arguments`."""
        model, loss_fn = self.model, self.loss_fn
        if loss_fn is None:
            return lambda **named: model(**named).loss
        return lambda *inputs: loss_fn(model(*inputs[:-1]), inputs[-1])


def arguments(batch: Batch) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """A batch as what a function is called with."""
    return ((), batch) if isinstance(batch, dict) else (batch, {})


def pool_for(work: Workload) -> int:
    """Bytes of pool that any of the workloads trains in: room for parameters, two moments, the
    gradients and their updates, and for activations."""
    parameters = sum(p.numel() * p.element_size() for p in work.model.parameters())
    return 6 * parameters + (256 << 20)


def generator(seed: int, i: int) -> torch.Generator:
    """The generator of batch i: independent of torch's default one."""
    return torch.Generator().manual_seed(seed * 1_000_003 + i)


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy over the last dimension, for one class an example or one a token."""
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


def optimizer_form(form: str) -> dict[str, bool]:
    """The keyword arguments that ask torch for one form of an optimizer."""
    if form not in FORMS:
        raise ValueError(f"no optimizer form {form!r}; there are {', '.join(FORMS)}")
    return {} if form == "default" else {form: True}


def sgd(model: nn.Module, form: str) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **optimizer_form(form))


def adam(model: nn.Module, form: str) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3, **optimizer_form(form))


def adamw(model: nn.Module, form: str) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer_form(form))


def dense_batches(seed: int, shape: tuple[int, ...], classes: int = 10):
    """Batches of normal inputs of `shape` (batch first) with one class an example."""

    def batch(i: int) -> tuple[torch.Tensor, ...]:
        g = generator(seed, i)
        inputs = torch.randn(shape, generator=g)
        return inputs, torch.randint(classes, (shape[0],), generator=g)

    return batch
