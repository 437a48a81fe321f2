"""GraphJob: a graph that torch.compile made, as a job over one set of weights."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from laneway.capture import CapturedJobGraph
from laneway.compile_options import CompileOptions
from laneway.graph_ir import GeneratorArgument, Node, StorageKind
from laneway.graph_results import Planner, ResultPlan, Unfit
from laneway.inference_job import Inference
from laneway.process import ProcessLock
from laneway.random_state import READ, RESTORE
from laneway.service import Service
from laneway.tracked_weights import TrackedWeights


class GraphJob:
    """`code(*arguments)` is the graph; `weights` are the positions of the arguments that are state
    of the job, `fed` those that it gets anew in each call, `names` those of the weights. Holds the
    weights' memory, not the tensors. Thread-safe."""

    def __init__(
        self,
        code: Callable[..., Sequence[Any]],
        arguments: Sequence[Any],
        weights: Sequence[int],
        fed: Sequence[int],
        names: Sequence[str],
        service: Service,
        options: CompileOptions,
        name: str,
        on_death: Callable[[GraphJob], None],
    ) -> None:
        self._code, self._weights, self._fed = code, weights, fed
        self._names = names
        self._lock = ProcessLock()
        self._calling = threading.local()  # .arguments: of the call that this thread is in
        tensors = [arguments[position] for position in weights]
        self._tracked = TrackedWeights(tensors, _called_with(self, on_death))
        self._holder = torch.nn.Module()
        self._hold(tensors, range(len(tensors)))
        self._inference = _GraphInference(
            self._holder,
            service,
            name,
            options.priority,
            options.admission_timeout,
            _weakly(self._body),
            options.max_variants,
        )
        self._inference.weight_paths = {("model", n): i for i, n in enumerate(names)}

    @property
    def service(self) -> Service:
        return self._inference.service

    @property
    def name(self) -> str | None:
        return self._inference.name

    def may_be_of(self, arguments: Sequence[Any]) -> bool:
        """Whether the first weight is the call's, or the job has none; a quick look."""
        return not self._weights or self._tracked.same([arguments[self._weights[0]]]) == 1

    def known(self, arguments: Sequence[Any]) -> int:
        """How many of the job's weights are the call's; 1 if it has none."""
        if not self._weights:
            return 1
        return self._tracked.same([arguments[position] for position in self._weights])

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """The graph's results for these arguments, with their weights as they are now; None when
        they cannot be put together. Raises OtherLayout when the weights do not fit the job."""
        with self._lock:
            self._bring_up_to_date([arguments[position] for position in self._weights])
            if self._inference.writes:
                return self._run(arguments)
        return self._run(arguments)

    def close(self) -> None:
        self._inference.close()

    def _run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        self._calling.arguments = arguments
        try:
            plan, *computed = self._inference(*[arguments[position] for position in self._fed])
        finally:
            del self._calling.arguments
        if plan.written:
            with self._lock:
                self._write_back(plan, [arguments[position] for position in self._weights])
        return plan.put_together(computed, arguments)

    def _body(self, holder: torch.nn.Module, *fed: Any) -> Any:
        """What is captured: the graph on fakes."""
        arguments = list(self._calling.arguments)
        for position, value in zip(self._fed, fed):
            arguments[position] = value
        for position, name in zip(self._weights, self._names):
            arguments[position] = getattr(holder, name)
        given = [a for a in fed if isinstance(a, torch.Tensor)]
        versions = [tensor._version for tensor in given]
        outputs = self._code(*arguments)
        if [tensor._version for tensor in given] != versions:
            raise Unfit("the graph writes into a tensor that it is given")
        plan, computed = Planner(arguments).plan(outputs)
        return (plan, *computed)

    def _bring_up_to_date(self, tensors: list[torch.Tensor]) -> None:
        changed = self._tracked.changed(tensors)
        if not changed:
            return
        self._tracked.note(tensors, changed)
        self._hold(tensors, changed)
        job, captured = self._inference.job, self._inference.captured
        if job is None or captured is None:
            return
        slots = {}
        for position in changed:
            slot = self._slot_of(captured, position)
            slots[slot.index] = (slot, tensors[position].untyped_storage())
        job.write_state([s for s, _ in slots.values()], [b for _, b in slots.values()])

    def _write_back(self, plan: ResultPlan, tensors: list[torch.Tensor]) -> None:
        """What the graph wrote to its weights is written to the user's."""
        captured = self._inference.captured
        slots = {s.index: s for s in (self._slot_of(captured, p) for p in plan.written)}
        storages, _ = self._inference.job.read_state(list(slots.values()))
        by_slot = dict(zip(slots, storages))
        with torch.no_grad():
            for position in plan.written:
                slot = self._slot_of(captured, position)
                path = ("model", self._names[position])
                described = next(t for t in slot.tensors if t.path == path)
                tensors[position].copy_(described.view(by_slot[slot.index]))
        self._tracked.note(tensors, plan.written)

    def _slot_of(self, captured: CapturedJobGraph, position: int) -> Any:
        path = ("model", self._names[position])
        return next(s for s in captured.slots if any(t.path == path for t in s.tensors))

    def _hold(self, tensors: list[torch.Tensor], positions: Sequence[int]) -> None:
        with torch.inference_mode(False), torch.no_grad():
            for position in positions:
                self._holder.register_buffer(self._names[position], tensors[position].detach())


def _called_with(job: GraphJob, on_death: Callable[[GraphJob], None]) -> Callable[[], None]:
    reference = weakref.ref(job)

    def call() -> None:
        held = reference()
        if held is not None:
            on_death(held)

    return call


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method without its object: the job ends when its holder lets it go, not a cycle later."""
    reference = weakref.WeakMethod(method)
    return lambda *arguments: reference()(*arguments)


class _GraphInference(Inference):
    """Refuses graphs whose results would not be eager's; knows which weights a graph writes."""

    weight_paths: dict[tuple, int]
    writes = False  # some graph does

    @property
    def captured(self) -> CapturedJobGraph | None:
        return self._captured

    def _captured_from(self, inputs: tuple, kwargs: dict[str, Any]) -> CapturedJobGraph:
        with torch.inference_mode(False):
            captured = super()._captured_from(inputs, kwargs)
        if any(_draws(node) for node in captured.graph.nodes):
            raise Unfit("the graph draws random numbers, which a job draws from its own generator")
        plan: ResultPlan = captured.outputs.leaves[0][1]
        plan.written = self._written(captured)
        self.writes = self.writes or bool(plan.written)
        return captured

    def _written(self, captured: CapturedJobGraph) -> list[int]:
        """The weights that lie on storages which the graph writes."""
        graph = captured.graph
        slots = set()
        for node in graph.nodes:
            for value in node.writes:
                storage = graph.storages[graph.values[value].storage]
                if storage.kind == StorageKind.persistent:
                    slots.add(storage.index)
        return [
            self.weight_paths[tensor.path]
            for slot in captured.slots
            if slot.index in slots
            for tensor in slot.tensors
            if tensor.path in self.weight_paths
        ]


def _draws(node: Node) -> bool:
    return node.op in (READ, RESTORE) or any(
        isinstance(argument, GeneratorArgument) for _, argument in node.arguments
    )
