"""Operators of op_db through laneway.inference, torch.compile and laneway.train_step."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.utils import counters

import laneway
from laneway import compile_backend

from . import databases, outcomes
from .bits import Difference, Seen, difference, seen
from .calls import Call, Tags, other_values, replicas
from .exclusions import UNINITIALIZED
from .fallbacks import Fallbacks
from .layouts import laid_out
from .outcomes import Case, NotApplicable, Outcome
from .training import sum_of, train_both

_SEEDS = (0, 1)  # of the first and of the second call's values

Judge = Callable[["Example", Any], Outcome]


class Example:
    """A call of an operator with two sets of values, alike in all but these."""

    def __init__(self, call: Call, values: list[list[torch.Tensor]]) -> None:
        self.call, self.values = call, values
        self.tags = Tags()

    def eager(self, sharing: bool) -> list[list[Seen]]:
        """What eager execution gives for each set of values. Raises NotApplicable."""
        first, again = self.run(self.call, sharing), self.run(self.call, sharing)
        for a, b in zip(first, again):
            found = difference(a, b)
            if found.real:
                raise NotApplicable(f"eager is not deterministic: {found.real}")
        with self.tags:
            self.call(*replicas(self.values[0]))
        return first

    def run(self, function: Callable[..., Any], sharing: bool) -> list[list[Seen]]:
        """What `function` gives for each set of values, and its effects on them if `sharing`."""
        copies = [replicas(values) for values in self.values]
        torch.manual_seed(7)
        found = []
        for tensors in copies:
            results = function(*tensors)
            found.append(seen(results, tensors if sharing else []))
        return found


def cases(
    part: str, name: str, dtype: str, samples: int | None, layouts: list[str]
) -> Iterator[tuple[Case, Callable[[Any], Outcome]]]:
    """The cases of an operator, each with what judges it on a service."""
    if name in UNINITIALIZED:
        reason = outcomes.not_applicable("its results are memory as it was found")
        yield Case(part, name, dtype, 0, layouts[0]), lambda service: reason
        return
    operator = next(o for o in databases.operators() if o.full_name == name)
    function = _as_users_write(operator.op)
    wanted = getattr(torch, dtype)
    gradients = part == "gradients"
    drawn = []
    for seed in _SEEDS:
        databases.seed(seed)
        made = operator.sample_inputs("cpu", wanted, requires_grad=gradients, set_seed=False)
        drawn.append(list(itertools.islice(made, samples)))
    judge = {"inference": inference, "compile": compiled, "gradients": trained}[part]
    for number, sample in enumerate(drawn[0]):
        other = drawn[1][number] if number < len(drawn[1]) else sample
        for layout in layouts:
            tree = laid_out((sample.input, sample.args, sample.kwargs), layout)
            if tree is None:
                continue
            given, args, kwargs = tree
            call = Call(function, (given, *args), kwargs)
            second = laid_out((other.input, other.args, other.kwargs), "contiguous")
            theirs = Call(function, (second[0], *second[1]), second[2]).tensors
            values = [call.tensors, other_values(call.tensors, theirs)]
            case = Case(part, name, dtype, number, layout)
            yield case, _judged(judge, call, values)


def _as_users_write(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method taken from its class, which torch.compile does not look into, as x.method()."""
    if not hasattr(function, "__objclass__"):
        return function
    name = function.__name__

    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(tensor, name)(*args, **kwargs)

    return method


def _judged(judge: Judge, call: Call, values: list) -> Callable[[Any], Outcome]:
    def judged(service: laneway.Service) -> Outcome:
        example = Example(call, values)
        try:
            outcome = judge(example, service)
        except NotApplicable as error:
            outcome = outcomes.not_applicable(str(error))
        outcome.dynamic, outcome.draws = example.tags.dynamic, example.tags.draws
        return outcome

    return judged


def _eager(example: Example, sharing: bool) -> list[list[Seen]]:
    """What eager gives. With the first values alone where it refuses the second."""
    try:
        return example.eager(sharing)
    except NotApplicable:
        raise
    except Exception as error:
        if len(example.values) == 1:
            raise NotApplicable(f"eager refuses it: {type(error).__name__}: {error}") from error
        example.values = example.values[:1]
        return _eager(example, sharing)


def inference(example: Example, service: laneway.Service) -> Outcome:
    """Through laneway.inference: values, dtypes and shapes count."""
    with torch.no_grad():
        expected = _eager(example, sharing=False)
        try:
            torch.manual_seed(7)
            with laneway.inference(example.call, service) as predict:
                found = example.run(predict, sharing=False)
        except Exception as error:
            return outcomes.of_error(error)
    return _compared(expected, found, strides=False)


def compiled(example: Example, _: laneway.Service) -> Outcome:
    """Through torch.compile: strides, shared memory and writes to inputs count as well."""
    with torch.no_grad():
        expected = _eager(example, sharing=True)
        error, found = None, []
        torch._dynamo.reset()
        counters.clear()
        with Fallbacks() as fallbacks, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = example.run(torch.compile(example.call, backend="laneway"), sharing=True)
            except Exception as raised:
                error = raised
        eagerly = _runs_eagerly(fallbacks, told)
        torch._dynamo.reset()
        if error is not None:
            outcome = Outcome(
                outcomes.RAISED, f"{type(error).__name__}: {outcomes.words_of(str(error))[:300]}"
            )
        else:
            outcome = _compared(expected, found, strides=True)
            if eagerly is not None and outcome.kind == outcomes.EQUAL:
                outcome = eagerly
        if outcome.kind in (outcomes.RAISED, outcomes.DIFFERENT):
            _blame_torch(example, expected)
        return outcome


def _runs_eagerly(fallbacks: Fallbacks, told: list[warnings.WarningMessage]) -> Outcome | None:
    """How the code that was just compiled runs, if not all of it as jobs."""
    rows = compile_backend.report()
    reasons = [row["eager"] for row in rows if row["eager"] is not None]
    breaks = [*counters["graph_break"], *counters["unimplemented"]]
    without_job = [row["name"] for row in rows if row["eager"] is None and not row["jobs"]]
    if rows and not (reasons or breaks or fallbacks.count or without_job):
        return None
    words = [
        str(warning.message)
        for warning in told
        if issubclass(warning.category, RuntimeWarning) and "Laneway" in str(warning.message)
    ]
    if words and reasons:
        return Outcome(outcomes.EAGER_WARNED, outcomes.words_of(reasons[0]))
    why = []
    if words:
        why.append(f"warned, but not in report(): {words[0][:200]}")
    if reasons:
        why.append(f"in report(), but no warning: {reasons[0][:200]}")
    if fallbacks.count:
        why.append(f"the graph called its eager code {fallbacks.count} times")
    if breaks:
        why.append(f"torch: {breaks[0].splitlines()[0][:160]}")
    if not rows:
        why.append("report() is empty")
    return Outcome(outcomes.EAGER_SILENT, outcomes.words_of("; ".join(why)))


def _blame_torch(example: Example, expected: list[list[Seen]]) -> None:
    """Raises NotApplicable when torch.compile's backend "eager" is as wrong."""
    try:
        found = example.run(torch.compile(example.call, backend="eager"), sharing=True)
        theirs = _compared(expected, found, strides=True)
    except Exception as error:
        raise NotApplicable(f"torch.compile raises itself: {type(error).__name__}") from error
    finally:
        torch._dynamo.reset()
    if theirs.kind != outcomes.EQUAL:
        raise NotApplicable(f"torch.compile differs itself: {theirs.message}")


def _compared(expected: list[list[Seen]], found: list[list[Seen]], strides: bool) -> Outcome:
    notes: list[str] = []
    for call, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        result: Difference = difference(theirs, ours)
        if result.real or (strides and result.laid):
            return Outcome(outcomes.DIFFERENT, f"call {call + 1}: {result.real or result.laid}")
        notes += [text for text in (result.laid, result.small) if text]
    return Outcome(outcomes.EQUAL, notes=notes[:1])


class _Summed(torch.nn.Module):
    """The operator's floating operands as parameters, the sum of its results as the loss."""

    def __init__(self, call: Call, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._call = call
        self._numbers = []
        for number, tensor in enumerate(tensors):
            if tensor.is_floating_point() or tensor.is_complex():
                self.register_parameter(f"operand_{number}", torch.nn.Parameter(tensor))
                self._numbers.append(number)
        self._count = len(tensors)

    def forward(self, *others: torch.Tensor) -> torch.Tensor:
        given = iter(others)
        tensors = [
            getattr(self, f"operand_{number}") if number in self._numbers else next(given)
            for number in range(self._count)
        ]
        return sum_of(self._call(*tensors))


def trained(example: Example, service: laneway.Service) -> Outcome:
    """Gradients through laneway.train_step: two steps of SGD, the operands are parameters."""
    first = example.values[0]
    others = [t for t in first if not (t.is_floating_point() or t.is_complex())]
    if len(others) == len(first):
        raise NotApplicable("no operand has a gradient")

    def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = _Summed(example.call, replicas(first))
        return model, torch.optim.SGD(model.parameters(), lr=0.01)

    def note_tags() -> None:
        with torch.no_grad(), example.tags:
            example.call(*replicas(first))

    batches = [tuple(replicas(others)) for _ in range(2)]
    return train_both(make, batches, service, when_eager_runs=note_tags)
