"""The same training by eager PyTorch and through laneway.train_step, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import laneway

from . import outcomes
from .bits import Seen, difference, seen
from .calls import tensors_of
from .outcomes import NotApplicable, Outcome

Make = Callable[[], tuple[torch.nn.Module, torch.optim.Optimizer]]


def sum_of(results: Any) -> torch.Tensor:
    """A real number of every result that has a gradient. Raises NotApplicable when none has."""
    total = None
    for tensor in tensors_of(results):
        if tensor.requires_grad:
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            total = real.sum() if total is None else total + real.sum()
    if total is None:
        raise NotApplicable("no result has a gradient")
    return total


def train_both(
    make: Make,
    batches: list[tuple],
    service: laneway.Service,
    needs_closure: bool = False,
    when_eager_runs: Callable[[], None] | None = None,
) -> Outcome:
    """Trains what `make` makes, whose model returns its loss, a step for each batch. Compared are
    the losses, parameters, buffers, the optimizer's state, and both after sync_to."""
    try:
        expected = _eager(make, batches, needs_closure)
        again = _eager(make, batches, needs_closure)
        if when_eager_runs is not None:
            when_eager_runs()
    except NotApplicable as error:
        return outcomes.not_applicable(str(error))
    except Exception as error:
        return outcomes.not_applicable(f"eager refuses it: {type(error).__name__}: {error}")
    for name in expected:
        if difference(expected[name], again[name]).real:
            return outcomes.not_applicable(f"eager is not deterministic: {name}")
    try:
        found = _ours(make, batches, service)
    except Exception as error:
        return outcomes.of_error(error)
    for name, ours in found.items():
        different = difference(expected[name.removesuffix(", after sync_to")], ours)
        if different.real:
            return Outcome(outcomes.DIFFERENT, f"{name}: {different.real}")
    return Outcome(outcomes.EQUAL)


def _begin(make: Make) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model, optimizer = make()
    torch.manual_seed(7)
    return model, optimizer


def _eager(make: Make, batches: list[tuple], needs_closure: bool) -> dict[str, list[Seen]]:
    model, optimizer = _begin(make)
    losses = []
    for batch in batches:

        def evaluate(batch: tuple = batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(*batch)
            loss.backward()
            return loss

        if needs_closure:
            loss = optimizer.step(evaluate)
        else:
            loss = evaluate()
            optimizer.step()
        losses.append(loss.detach().clone())
    return {
        "losses": seen(losses),
        "model": seen(dict(model.state_dict())),
        "optimizer": seen(_entries(optimizer.state_dict())),
    }


def _ours(make: Make, batches: list[tuple], service: laneway.Service) -> dict[str, list[Seen]]:
    model, optimizer = _begin(make)
    with laneway.train_step(model, None, optimizer, service) as step:
        losses = [step(*batch).detach().clone() for batch in batches]
        state = step.state_dict()
        found = {
            "losses": seen(losses),
            "model": seen(dict(state["model"])),
            "optimizer": seen(_entries(state["optimizer"])),
        }
        step.sync_to(model, optimizer)
    found["model, after sync_to"] = seen(dict(model.state_dict()))
    found["optimizer, after sync_to"] = seen(_entries(optimizer.state_dict()))
    return found


def _entries(state: dict[str, Any]) -> dict[Any, Any]:
    """An optimizer's state by parameter and name, in a fixed order."""
    return {
        f"{index} {name}": entry[name]
        for index, entry in sorted(state["state"].items())
        for name in sorted(entry)
    }
