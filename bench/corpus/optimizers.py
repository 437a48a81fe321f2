"""Optimizers of optim_db: every set of options in every implementation."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

import laneway

from . import databases
from .outcomes import Case, Outcome
from .training import train_both

_STEPS = 5
_IMPLEMENTATIONS = {
    "default": {},
    "for loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
FORMS = tuple(_IMPLEMENTATIONS)


class _Network(torch.nn.Module):
    def __init__(self, dtype: torch.dtype, bias: bool) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 3, bias=bias), torch.nn.Tanh(), torch.nn.Linear(3, 2, bias=bias)
        ).to(dtype)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(self.layers(x), y)


class _Sparse(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(5, 2, sparse=True).to(dtype)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(self.rows(x[:, 0].abs().long() % 5), y)


def cases(
    part: str, name: str, dtype: str, samples: int | None, forms: list[str]
) -> Iterator[tuple[Case, Callable[[Any], Outcome]]]:
    """The cases of an optimizer, each with what judges it on a service."""
    info = next(o for o in databases.optimizers() if o.optim_cls.__name__ == name)
    wanted = getattr(torch, dtype)
    options = itertools.islice(info.optim_inputs_func("cpu"), samples)
    for number, given in enumerate(options):
        for form in forms:
            if form == "fused" and "cpu" not in info.supports_fused_on:
                continue
            if form in ("foreach", "for loop") and "foreach" not in info.supported_impls:
                continue
            more = _IMPLEMENTATIONS[form]
            if more and set(given.kwargs) & {"foreach", "fused", "differentiable"}:
                continue
            case = Case(part, name, dtype, number, form)
            yield case, _judged(info, wanted, given.kwargs | more)


def _judged(info: Any, dtype: torch.dtype, options: dict[str, Any]) -> Callable[[Any], Outcome]:
    name = info.optim_cls.__name__

    def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        if info.only_supports_sparse_grads:
            model: torch.nn.Module = _Sparse(dtype)
        else:
            model = _Network(dtype, bias=name != "Muon")  # which takes matrices alone
        return model, info.optim_cls(model.parameters(), **copy.deepcopy(options))

    def judged(service: laneway.Service) -> Outcome:
        torch.manual_seed(3)
        batches = [
            (torch.randn(6, 4, dtype=dtype), torch.randn(6, 2, dtype=dtype)) for _ in range(_STEPS)
        ]
        return train_both(make, batches, service, needs_closure=info.step_requires_closure)

    return judged
