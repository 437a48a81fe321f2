"""EagerRun: one iteration in eager execution, on copies of a job's state.

The step's own Python runs once more, with copies in the places of the tensors of its models and
optimizers, as a capture has fakes there. Afterwards everything is as before: the user's objects,
what the step changed in Python, the random generators, and the tensors outside that it wrote.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import _refresh_per_optimizer_state
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from laneway.capture import optimizers
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.effects import Effects
from laneway.capture.kept_gradients import gradient_path
from laneway.capture.module_swap import swapped
from laneway.capture.use_watch import Watch
from laneway.graph.graph_ir import GeneratorArgument
from laneway.graph.slots import Path, Slot
from laneway.jobs.calls import draws
from laneway.jobs.calls.job import Job
from laneway.jobs.verify.bit_compare import named_leaves
from laneway.jobs.verify.eager_copies import Copies, State

Values = dict[str, Any]
_RESULT = "the result"


class EagerRun:
    """One iteration of `job`, whose slots are `slots`, by the graph `captured`. `program` is what
    eager execution runs, program(copies of the optimizers, args, kwargs); `functions` are the
    user's that it calls. `shares_random`: it draws from the client's generators, else from the
    job's, which `keeps_own` says that it leaves as it was."""

    def __init__(
        self,
        job: Job,
        slots: list[Slot],
        captured: CapturedJobGraph,
        state: State,
        program: Callable[[list[Optimizer], tuple, dict[str, Any]], Any],
        functions: list[Any],
        shares_random: bool,
        keeps_own: bool = False,
    ) -> None:
        self._job, self._slots, self._captured, self._state = job, slots, captured, state
        self._program, self._functions = program, functions
        self._own_random = not shares_random and _draws(captured)
        self._keeps_own = keeps_own
        self._paths: list[Path] = []  # of the state that the run left
        self.of_inputs: set[str] = set()  # the names of what it left in its arguments

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Values:
        """Runs it. Returns everything that it left, by names.

        Requires: the thread is inside capturing() of the gate of the step's models."""
        storages, random = self._job.read_state(self._slots, self._own_random)
        copies = Copies(self._state, self._slots, storages)
        modules = [module for _, module in self._state.modules]
        own = [optimizer for optimizer, *_ in self._state.optimizers]
        with (
            self._generators_kept(random),
            _contents_kept(self._written(args, kwargs)),
            _gradients_kept(self._with_gradients(args, kwargs)),
            self._scaler_kept(copies),
            _threads(self._captured.graph.context.threads),
            swapped(modules, copies.of, own),
        ):
            result = self._run(copies, modules, own, args, kwargs)
            values = named_leaves(result, _RESULT) | self._of_state(copies)
            left = None if random is None else torch.default_generator.get_state()
            return values | self._outside(args, kwargs, left)

    def of_job(self, result: Any, args: tuple | None, kwargs: dict[str, Any]) -> Values:
        """The same of the job's iteration, which gave `result`; without arguments where it wrote
        none."""
        storages, random = self._job.read_state(self._slots, self._own_random)
        there = Copies(State([]), self._slots, storages).view
        found = named_leaves(result, _RESULT)
        paths = [path for path in self._paths if path[0] != "gradient"]
        paths += [gradient_path(p) for p, has in self._captured.gradients.items() if has]
        for path in paths:
            view = there(path)
            if view is not None:
                found[_name(path)] = view
        if self._captured.generators:
            draws.default_state()  # moves them to where the iteration left them
        return found | self._outside(args, kwargs, random)

    def _run(
        self, copies: Copies, modules: list, own: list, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        records = torch.is_grad_enabled()  # leaving inference_mode sets it
        pairs = list(zip(own, copies.optimizers))
        watch = Watch(modules, self._functions, None, pairs, copies.of)
        effects = Effects(watch)
        try:
            with (
                watch.telling(),
                contextlib.ExitStack() as entered,
                torch.inference_mode(False),
                torch.set_grad_enabled(records),
            ):
                for optimizer, copied in pairs:
                    entered.enter_context(optimizers.standing_in(copied, optimizer))
                return self._program(copies.optimizers, args, kwargs)
        finally:
            effects.restore()

    def _of_state(self, copies: Copies) -> Values:
        found = dict(copies.left())
        for path in self._captured.gradients:
            gradient = copies.gradient(path)
            if gradient is not None:
                found[gradient_path(path)] = gradient
        if self._captured.scaler is not None:
            attributes = self._captured.scaler.scaler.__dict__
            for path, attribute in _SCALER.items():
                found[path] = attributes[attribute]
        self._paths = list(found)
        return {_name(path): tensor for path, tensor in found.items()}

    def _outside(self, args: tuple | None, kwargs: dict[str, Any], random: Any) -> Values:
        found: Values = {}
        if args is not None:
            tensors, captured = _tensors_in(args, kwargs), self._captured
            found |= {f"input {n}": tensors[n].detach().clone() for n in captured.written_inputs}
            found |= {
                f"the gradient of input {n}": tensors[n].grad for n in captured.input_gradients
            }
            self.of_inputs = set(found)
        for number, tensor in enumerate(self._written_outside()):
            found[f"tensor {number} of those outside"] = tensor.detach().clone()
        if random is not None and not self._keeps_own:
            found["the state of the job's random generator"] = random
        for number, generator in enumerate(self._captured.generators):
            found[f"the state of random generator {number}"] = generator.get_state()
        return found

    def _written(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        tensors = _tensors_in(args, kwargs)
        return [*(tensors[n] for n in self._captured.written_inputs), *self._written_outside()]

    def _written_outside(self) -> list[torch.Tensor]:
        return [outer.tensor for outer in self._captured.uses.tensors if outer.is_written]

    def _with_gradients(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        tensors = _tensors_in(args, kwargs)
        return [tensors[n] for n in self._captured.input_gradients]

    @contextlib.contextmanager
    def _generators_kept(self, random: torch.Tensor | None) -> Iterator[None]:
        generators = list(self._captured.generators)
        draws.default_state()  # what was submitted before moves them first
        if random is not None:
            generators.append(torch.default_generator)
        before = [generator.get_state() for generator in generators]
        if random is not None:
            torch.default_generator.set_state(random)
        try:
            yield
        finally:
            for generator, state in zip(generators, before):
                generator.set_state(state)

    @contextlib.contextmanager
    def _scaler_kept(self, copies: Copies) -> Iterator[None]:
        if self._captured.scaler is None:
            yield
            return
        attributes = self._captured.scaler.scaler.__dict__
        before = dict(attributes)
        attributes |= {attribute: copies.view(path) for path, attribute in _SCALER.items()}
        attributes["_per_optimizer_states"] = collections.defaultdict(_refresh_per_optimizer_state)
        try:
            yield
        finally:
            attributes.clear()
            attributes.update(before)


def _draws(captured: CapturedJobGraph) -> bool:
    arguments = (argument for node in captured.graph.nodes for _, argument in node.arguments)
    return any(isinstance(argument, GeneratorArgument) for argument in arguments)


_SCALER: dict[Path, str] = {
    ("scaler", "scale"): "_scale",
    ("scaler", "_growth_tracker"): "_growth_tracker",
}


def _name(path: Path) -> str:
    return "/".join(map(str, path))


def _tensors_in(args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]


@contextlib.contextmanager
def _contents_kept(tensors: list[torch.Tensor]) -> Iterator[None]:
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, content in zip(tensors, before):
                tensor.copy_(content)


@contextlib.contextmanager
def _gradients_kept(tensors: list[torch.Tensor]) -> Iterator[None]:
    before = [tensor.grad for tensor in tensors]
    for tensor, gradient in zip(tensors, before):
        tensor.grad = None if gradient is None else gradient.clone()
    try:
        yield
    finally:
        for tensor, gradient in zip(tensors, before):
            tensor.grad = gradient


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
