"""Trains a bench model eagerly and through a service, from the same weights, batches and random
state, for tests that compare what is left."""

from __future__ import annotations

from typing import Any

import torch

import laneway
from bench import models
from support.eager import assert_same, eager_step


def batches_of(name: str, seed: int, count: int) -> list[tuple[torch.Tensor, ...]]:
    source = models.make(name, seed)
    return [source.batch(i) for i in range(count)]


def eager_state(name: str, seed: int, form: str, batches: list[Any]) -> dict[str, Any]:
    """Losses and state after plain PyTorch trained on the batches."""
    twin = models.make(name, seed, form)
    torch.manual_seed(seed + 100)
    losses = [
        eager_step(twin.model, twin.loss_fn, twin.optimizer, batch).item() for batch in batches
    ]
    return {
        "losses": losses,
        "model": twin.model.state_dict(),
        "optimizer": twin.optimizer.state_dict(),
        "random": torch.get_rng_state(),
    }


def make_step(
    service: Any, name: str, seed: int, form: str = "default", sync: str = "on_read"
) -> Any:
    """A step whose job draws what `eager_state` draws."""
    workload = models.make(name, seed, form)
    torch.manual_seed(seed + 100)
    return laneway.train_step(
        workload.model,
        workload.loss_fn,
        workload.optimizer,
        service,
        name=f"{name}-{seed}",
        random="own",  # many train side by side
        sync=sync,
    )


def job_state(step: Any, losses: list[float]) -> dict[str, Any]:
    return {"losses": losses, **step.state_dict()}


def train(step: Any, batches: list[Any]) -> dict[str, Any]:
    return job_state(step, [step(*batch).item() for batch in batches])


def check_model(name: str, seed: int, form: str, steps: int, pool: str = "2GiB") -> Any:
    """Trains alone, asserts equality with eager, and returns the job's report."""
    batches = batches_of(name, seed, steps)
    with laneway.embedded(pool) as service, make_step(service, name, seed, form) as step:
        state = train(step, batches)
        report = step.report()
    assert_same(eager_state(name, seed, form, batches), state, name)
    return report
