"""Modules of module_db: trained by two optimizers, and evaluated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import laneway

from . import databases, operators, outcomes
from .calls import Call, other_values, replicas, tensors_of
from .outcomes import Case, NotApplicable, Outcome
from .training import sum_of, train_both

_STEPS = 3
_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}
FORMS = (*_OPTIMIZERS, "evaluation")


class _Loss(torch.nn.Module):
    """A module's call with the sum of its results as the loss. One without parameters has its
    first floating input scaled by one."""

    def __init__(self, module: torch.nn.Module, call: Call) -> None:
        super().__init__()
        self.module = module
        self._call = call
        self.scale = None
        if next(module.parameters(), None) is None:
            self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        given = list(tensors)
        if self.scale is not None:
            for number, tensor in enumerate(given):
                if tensor.is_floating_point() or tensor.is_complex():
                    given[number] = tensor * self.scale.to(tensor.dtype)
                    break
        args, kwargs = self._call.filled(tuple(given))
        return sum_of(self.module(*args, **kwargs))


def cases(
    part: str, name: str, dtype: str, samples: int | None, forms: list[str]
) -> Iterator[tuple[Case, Callable[[Any], Outcome]]]:
    """The cases of a module, each with what judges it on a service."""
    info = next(m for m in databases.modules() if m.name == name)
    wanted = getattr(torch, dtype)
    for form in forms:
        drawn = []
        for seed in range(_STEPS):
            databases.seed(seed)
            made = info.module_inputs_func(
                info, "cpu", wanted, requires_grad=False, training=form != "evaluation"
            )
            drawn.append(list(itertools.islice(made, samples)))
        for number, first in enumerate(drawn[0]):
            if first.forward_input is None:
                continue
            same = [inputs[number] if number < len(inputs) else first for inputs in drawn]
            case = Case(part, name, dtype, number, form)
            yield case, _judged(info, wanted, form, same)


def _judged(
    info: Any, dtype: torch.dtype, form: str, inputs: list[Any]
) -> Callable[[Any], Outcome]:
    first = inputs[0]
    call = Call(None, first.forward_input.args, first.forward_input.kwargs)
    values = [call.tensors]
    for other in inputs[1:]:
        theirs = Call(None, other.forward_input.args, other.forward_input.kwargs).tensors
        values.append(other_values(call.tensors, theirs))

    def build() -> torch.nn.Module:
        args, kwargs = first.constructor_input.args, first.constructor_input.kwargs
        made = info.module_cls(*_copied(args), **_copied(kwargs)).to(dtype)
        return made.train(form != "evaluation")

    def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = _Loss(build(), call)
        return model, _OPTIMIZERS[form](model.parameters())

    def judged(service: laneway.Service) -> Outcome:
        if form != "evaluation":
            return train_both(make, [tuple(replicas(v)) for v in values], service)
        try:
            torch.manual_seed(1)
            example = operators.Example(_Evaluated(build(), call), values[:2])
            return operators.inference(example, service)
        except NotApplicable as error:
            return outcomes.not_applicable(str(error))

    return judged


class _Evaluated(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, call: Call) -> None:
        super().__init__()
        self.module = module
        self._call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self._call.filled(tensors)
        return self.module(*args, **kwargs)


def _copied(tree: Any) -> Any:
    made = iter(replicas(tensors_of(tree)))
    return pytree.tree_map(lambda x: next(made) if isinstance(x, torch.Tensor) else x, tree)
