"""One row of the table of what is supported, tried: the same code run by plain PyTorch and by a
service, and what came of it.

A row is a function of a Trial. It trains or infers through the trial and returns nothing; what the
page says about it is found by running it.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import laneway
from laneway.capture import given
from laneway.capture.opaque import take_apart
from support.eager import assert_same

SAME, CLOSE, REFUSED, NOT_TORCH = (
    "bit-equal",
    "equal within rounding",
    "refused",
    "eager PyTorch refuses it too",
)

# A line of the user's in a message: the row's file and line are not the reader's business.
_LINE = re.compile(r"[\w.]+\.py:\d+ in [\w<>]+")
# A node's place in the graph, which every change of a pass moves.
_NODE = re.compile(r"\bnode \d+")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`kind` is one of the constants above; `message` is the error's own words, if there is one."""

    kind: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class EagerFails(Exception):
    """Plain PyTorch does not run the row's code."""


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def step_of(loss_fn: Callable[..., Any] | None) -> Callable[..., Any]:
    """The step that a user would write, in the form of a closure."""

    def step(model: Any, optimizer: Any, *inputs: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        if loss_fn is None:
            result = model(*inputs, **kwargs)
        else:
            result = loss_fn(model(*inputs[:-1], **kwargs), inputs[-1])
        loss = result
        if isinstance(result, dict):
            loss = result["loss"]
        elif isinstance(result, tuple):
            loss = result[0]
        loss.backward()
        optimizer.step()
        return result

    return step


class Trial:
    """Runs rows against `service`. `compared` counts what was held against eager, `close` says that
    something was not bit-equal but within rounding."""

    def __init__(self, service: laneway.Service) -> None:
        self.service = service
        self.compared = 0
        self.close = False

    def train(
        self,
        make_model: Callable[[], nn.Module],
        batches: Iterable[Any],
        loss_fn: Callable[..., Any] | None = F.cross_entropy,
        make_optimizer: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
        closure: Callable[..., Any] | None = None,
        around: Callable[[nn.Module, Any], Callable[[], Any]] | None = None,
        warm_up: int = 0,
        learns: bool = True,
        evaluates: bool = False,
        **options: Any,
    ) -> None:
        """Trains on the batches (tuples of arguments, or dictionaries of keywords) both ways, and
        compares results and state. `around(model, optimizer)` gives what to call after each step.
        The first `warm_up` batches are run eagerly in both. `learns`: the row changes weights.
        `evaluates`: an inference of the trained step is compared as well, on the first batch."""
        batches = list(batches)
        run = closure or step_of(loss_fn)

        def begin() -> tuple[nn.Module, Any]:
            torch.manual_seed(1)
            model = make_model()
            optimizer = make_optimizer(model)
            torch.manual_seed(7)
            for batch in batches[:warm_up]:
                _call(run, batch, model, optimizer)
            return model, optimizer

        try:
            twin, twin_optimizer = begin()
            before = _copied(twin.state_dict())
            after_each = around(twin, twin_optimizer) if around else _nothing
            expected = []
            for batch in batches[warm_up:]:
                result = _call(run, batch, twin, twin_optimizer)
                if closure is None and isinstance(result, dict):
                    result = result["loss"]
                expected.append(_copied(result))
                after_each()
        except Exception as error:
            raise EagerFails(_first_line(error)) from error

        model, optimizer = begin()
        with laneway.train_step(
            model, loss_fn, optimizer, self.service, closure=closure, **options
        ) as step:
            after_each = around(model, step.optimizer) if around else _nothing
            found = []
            for batch in batches[warm_up:]:
                found.append(_call(step, batch))
                after_each()
            state = step.state_dict()
            if evaluates:
                call = _inputs(batches[0], has_target=loss_fn is not None)
                self._compare_inference(twin, laneway.inference(step), call)
        self.compare(expected, found, "results")
        self.compare(dict(twin.state_dict()), dict(state["model"]), "model")
        every = zip(given.all_of(twin_optimizer), given.all_of(state["optimizer"]), strict=True)
        for of_twin, of_step in every:
            self.compare(of_twin.state_dict()["state"], of_step["state"], "optimizer")
        if learns and _equal(before, twin.state_dict()):
            raise AssertionError("the row trains nothing")

    def _compare_inference(self, twin: nn.Module, predict: Any, call: Any) -> None:
        """Holds an inference's results, which may be objects with tensors inside (the caches of
        language models), against those of `twin` in evaluation mode."""
        ours = _call(predict, call)
        with torch.no_grad():
            theirs = _call(twin.eval(), call)
        if type(ours) is not type(theirs):
            raise AssertionError(f"the inference returns {type(ours)}, eager {type(theirs)}")
        found = [take_apart(result)[1] for result in (theirs, ours)]
        if not found[0]:
            raise AssertionError("the inference returns no tensor")
        self.compare(*found, "inference")

    def infer(
        self,
        make_model: Callable[[], nn.Module],
        calls: Iterable[Any],
        closure: Callable[..., Any] | None = None,
    ) -> None:
        """The model's results in evaluation mode for each call (tuple or dictionary), both ways."""
        calls = list(calls)

        def begin() -> nn.Module:
            torch.manual_seed(1)
            model = make_model()
            torch.manual_seed(7)
            return model

        try:
            twin = begin().eval()
            with torch.no_grad():
                run = (lambda *a, **k: closure(twin, *a, **k)) if closure else twin
                expected = [_copied(_call(run, call)) for call in calls]
        except Exception as error:
            raise EagerFails(_first_line(error)) from error
        with laneway.inference(begin(), self.service, closure=closure) as predict:
            self.compare(expected, [_call(predict, call) for call in calls], "results")

    def compare(self, expected: Any, found: Any, where: str) -> None:
        """Holds two nested results against each other; raises AssertionError when they differ by
        more than rounding."""
        expected, found = _detached(expected), _detached(found)
        tensors = [x for x in pytree.tree_leaves(expected) if isinstance(x, torch.Tensor)]
        self.compared += len(tensors)
        try:
            assert_same(expected, found, where)
        except AssertionError as difference:
            if pytree.tree_structure(expected) != pytree.tree_structure(found):
                raise
            for a, b in zip(pytree.tree_leaves(expected), pytree.tree_leaves(found)):
                try:
                    torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6, equal_nan=True)
                except AssertionError:
                    raise difference from None
            self.close = True


def outcome_of(run: Callable[[Trial], None], service: laneway.Service) -> Outcome:
    """Tries a row. Raises what neither bit-equality nor a refusal of ours explains: a difference,
    a row that compares nothing, an error that is not laneway.Error."""
    trial = Trial(service)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(trial)
    except EagerFails as error:
        return Outcome(NOT_TORCH, str(error))
    except laneway.Error as error:
        return Outcome(REFUSED, _words_of(error))
    finally:
        torch.set_num_threads(threads)
    if not trial.compared:
        raise AssertionError("the row compares nothing")
    return Outcome(CLOSE if trial.close else SAME)


def _call(function: Callable[..., Any], call: Any, *first: Any) -> Any:
    if isinstance(call, dict):
        return function(*first, **call)
    return function(*first, *call)


def _inputs(batch: Any, has_target: bool) -> Any:
    """A batch without its target, as the model is called with."""
    return batch[:-1] if has_target and isinstance(batch, tuple) else batch


def _nothing() -> None:
    pass


def _detached(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, tree)


def _copied(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, tree)


def _equal(a: Any, b: Any) -> bool:
    try:
        assert_same(dict(a), dict(b))
    except AssertionError:
        return False
    return True


def _words_of(error: Exception) -> str:
    text = " ".join(str(error).split())
    return _NODE.sub("node N", _LINE.sub("FILE:LINE", text))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
