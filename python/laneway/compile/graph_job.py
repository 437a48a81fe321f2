"""GraphJob: a graph that torch.compile made, as graphs of the job over one set of weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from laneway.capture.border import expected_strides
from laneway.capture.capture import CapturedJobGraph, capture_inference
from laneway.capture.random_state import READ, RESTORE
from laneway.compile.graph_results import Planner, ResultPlan, Unfit
from laneway.compile.weight_image import WeightImage
from laneway.graph.graph_ir import GeneratorArgument, Node, StorageKind
from laneway.graph.target import Target
from laneway.jobs.calls.graph_call import GraphCall
from laneway.jobs.calls.written_inputs import share_memory
from laneway.jobs.forms.conditions import Conditions
from laneway.jobs.forms.variants import Variants
from laneway.jobs.watch.capture_gate import gate_of


class GraphJob:
    """`code(*arguments)` is the graph; `weights` are the positions of the arguments in the image,
    in the image's order, `fed` those of the inputs of each call. Thread-safe."""

    def __init__(
        self,
        code: Callable[..., Sequence[Any]],
        weights: Sequence[int],
        fed: Sequence[int],
        image: WeightImage,
    ) -> None:
        self._code, self._weights, self._fed = code, weights, fed
        self.image = image
        self._writes = False  # a form of the graph writes to the weights
        self._writes_arguments = False  # a form of the graph writes to its inputs
        self._calling = threading.local()  # .arguments: those of this thread's present call
        self._gate = gate_of(image.holder)
        self._variants = Variants(
            "compiled graph", image.options.max_variants, Conditions(), self._gate, self._capture
        )

    def may_be_of(self, arguments: Sequence[Any]) -> bool:
        """Whether the first weight is the call's, or the job has none; a quick check."""
        return not self._weights or self.image.known([arguments[self._weights[0]]]) == 1

    def known(self, arguments: Sequence[Any]) -> int:
        """How many of the job's weights are the call's; 1 if the job has none."""
        if not self._weights:
            return 1
        return self.image.known(self._tensors(arguments))

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """The graph's results for these arguments, with their weights as they are now; None when
        they cannot be put together. Raises OtherLayout when the weights do not fit the job."""
        with self.image.state:
            self.image.bring_up_to_date(self._tensors(arguments))
            self._check_writes(arguments)
            if self._writes or self._writes_arguments:
                self.image.rewritten(self._tensors(arguments))
                return self._run(arguments, self._called)
        if self.image.are_few_bytes:
            return self._run(arguments, self._called)
        return self._run(arguments, self._called_beside)

    def _called(self, fed: tuple, arguments: Sequence[Any]) -> Any:
        return self._variants.run(fed, {})

    def _called_beside(self, fed: tuple, arguments: Sequence[Any]) -> Any:
        """While the service computes, the weights are compared with what it has of them. When they
        differ, it computes again: the graph writes nothing."""
        differ = False

        def compare() -> None:
            nonlocal differ
            with self.image.state:
                differ = self.image.rewritten(self._tensors(arguments))

        result = self._variants.run(fed, {}, beside=compare)
        return self._variants.run(fed, {}) if differ else result

    def _run(
        self, arguments: Sequence[Any], call: Callable[[tuple, Sequence[Any]], Any]
    ) -> Sequence[Any] | None:
        self._calling.arguments = arguments
        try:
            fed = tuple(arguments[position] for position in self._fed)
            plan, *computed = call(fed, arguments)
        finally:
            del self._calling.arguments
        results = plan.put_together(computed, arguments)
        if plan.written and results is not None:  # otherwise eager execution makes the write, once
            with self.image.state:
                self.image.write_back(plan.written, self._tensors(arguments))
        return results

    def _check_writes(self, arguments: Sequence[Any]) -> None:
        """Checks a graph that writes, before it runs. Raises Unfit when inputs of the call share
        memory with weights, because the job has them in separate memory; and when the graph writes
        to inputs that have another layout in the job: then the results might not be put together,
        and eager execution would write a second time."""
        if not (self._writes or self._writes_arguments):
            return
        weights = self._tensors(arguments)
        for tensor in (arguments[position] for position in self._fed):
            if not isinstance(tensor, torch.Tensor):
                continue
            if any(share_memory(tensor, weight) for weight in weights):
                raise Unfit("it writes into memory that argument and weight share")
            if self._writes_arguments and tuple(tensor.stride()) != expected_strides(tensor):
                raise Unfit("it writes, and an argument lies otherwise than its copy in the job")

    def _tensors(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        return [arguments[position] for position in self._weights]

    def _capture(self, fed: tuple, kwargs: dict[str, Any]) -> GraphCall:
        image = self.image
        with image.making():
            with self._gate.capturing(), torch.inference_mode(False):
                captured = capture_inference(
                    image.holder,
                    fed,
                    slots_of=image.captured,
                    name=image.name,
                    closure=self._body,
                    target=Target(image.service.kernels),
                )
            if any(_draws(node) for node in captured.graph.nodes):
                raise Unfit(
                    "the graph draws random numbers, which a job draws from its own generator"
                )
            plan: ResultPlan = captured.outputs.leaves[0][1]
            plan.written = self._written(captured)
            self._writes = self._writes or bool(plan.written)
            self._writes_arguments = self._writes_arguments or bool(captured.written_inputs)
            self._check_writes(self._calling.arguments)
            return image.add(captured)

    def _body(self, holder: torch.nn.Module, *fed: Any) -> Any:
        """The captured function: the graph on fakes."""
        arguments = list(self._calling.arguments)
        for position, value in zip(self._fed, fed):
            arguments[position] = value
        for position, name in zip(self._weights, self.image.names):
            arguments[position] = getattr(holder, name)
        plan, computed = Planner(arguments).plan(self._code(*arguments))
        return (plan, *computed)

    def _written(self, captured: CapturedJobGraph) -> list[int]:
        """The positions of the weights on storages that the graph writes."""
        graph = captured.graph
        slots = set()
        for node in graph.nodes:
            for value in node.writes:
                storage = graph.storages[graph.values[value].storage]
                if storage.kind == StorageKind.persistent:
                    slots.add(storage.index)
        paths = {("model", name): position for position, name in enumerate(self.image.names)}
        return [
            paths[tensor.path]
            for slot in captured.slots
            if slot.index in slots
            for tensor in slot.tensors
            if tensor.path in paths
        ]


def _draws(node: Node) -> bool:
    return node.op in (READ, RESTORE) or any(
        isinstance(argument, GeneratorArgument) for _, argument in node.arguments
    )
