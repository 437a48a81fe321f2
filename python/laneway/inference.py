"""Inference: a model's forward pass as a graph of a service: of a job of its own, or of a training
step's job, whose current weights it then uses. Made by inference()."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import torch

from laneway.capture import CapturedJobGraph, capture_inference
from laneway.errors import CaptureError, ServiceUnavailable
from laneway.graph_call import GraphCall
from laneway.graph_ir import NO_VALUE, Storage, StorageKind
from laneway.job import Future, Job, create_job
from laneway.service import Service, default_service
from laneway.step import TrainStep

_INFERENCE = 1


class Inference:
    """Call it with inputs; the model's outputs come back. Captured at the first call, in evaluation
    mode, without gradients. Of a training step it runs in that job's lane, between iterations, on
    the weights as they are then. Thread-safe."""

    def __init__(
        self,
        model_or_step: torch.nn.Module | TrainStep,
        service: Service | None,
        name: str | None,
        priority: int,
        admission_timeout: float | None,
    ) -> None:
        self._step = model_or_step if isinstance(model_or_step, TrainStep) else None
        self._model = self._step.model if self._step is not None else model_or_step
        if self._step is not None:
            service = self._step.service
        self.service = service if service is not None else default_service()
        self.name = name
        self._priority = priority
        self._admission_timeout = admission_timeout
        self._random_state = torch.get_rng_state()
        self._lock = threading.RLock()
        self._closed = False
        self.job: Job | None = None
        self._call: GraphCall | None = None

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """model(*inputs, **kwargs) with the job's weights."""
        return (self._call or self._first_call(inputs, kwargs)).run(inputs, kwargs)

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """The same without waiting."""
        return (self._call or self._first_call(inputs, kwargs)).submit(inputs, kwargs)

    def close(self) -> None:
        """Ends the job, if it is this inference's own; idempotent."""
        with self._lock:
            self._closed = True
            self._call = None
            if self.job is not None and self._step is None:
                self.job.close()

    def __enter__(self) -> Inference:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _first_call(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            if self._closed:
                raise ServiceUnavailable(
                    f"inference {self.name or ''} was closed; make a new one to go on"
                )
            if self._call is None:
                self._call = self._capture(inputs, kwargs)
            return self._call

    def _capture(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        if self._step is None:
            captured = capture_inference(self._model, inputs, kwargs, name=self.name or "inference")
            self.job = create_job(
                self.service,
                self.name,
                captured.slots,
                captured.encode(),
                self._random_state,
                job_class=_INFERENCE,
                priority=self._priority,
                weight=1.0,
                total_iterations=None,
            )
            self.job.wait_until_placed(self._admission_timeout)
            self.name = self.job.name
            return GraphCall(self.job, 0, captured)
        of_step, self.job = self._step.ensure_job()
        captured = capture_inference(
            self._model, inputs, kwargs, slots_of=of_step, name=self.name or "inference"
        )
        captured, fixed = pass_new_slots_as_inputs(captured, len(of_step.slots))
        index = self.job.add_graph(captured.encode())
        self.name = self.name or self.job.name
        return GraphCall(self.job, index, captured, fixed=fixed)


def inference(
    model_or_step: torch.nn.Module | TrainStep,
    service: Service | None = None,
    name: str | None = None,
    priority: int = 0,
    admission_timeout: float | None = None,
) -> Inference:
    """An inference to call with inputs. Of a model: a job of its own, with the model's weights at
    the first call. Of a step (which must have a job: called or prepared): another graph of its job,
    in the same lane, with its current weights. Errors as for train_step."""
    return Inference(model_or_step, service, name, priority, admission_timeout)


def pass_new_slots_as_inputs(
    captured: CapturedJobGraph, known: int
) -> tuple[CapturedJobGraph, list[torch.Tensor]]:
    """Slots from number `known` on (constants of this graph alone) become graph inputs behind the
    others, because the job's image is laid out already. Result: the capture, and the tensors of
    those inputs in order."""
    graph = captured.graph
    made = {v for node in graph.nodes for result in node.results for v in result.values}
    roots: dict[int, list[int]] = {}
    for number, value in enumerate(graph.values):
        if number in made or number == NO_VALUE or number in graph.inputs:
            continue
        roots.setdefault(value.storage, []).append(number)
    storages = list(graph.storages)
    inputs = list(graph.inputs)
    fixed: list[torch.Tensor] = []
    for number, storage in enumerate(graph.storages):
        if storage.kind != StorageKind.persistent or storage.index < known:
            continue
        slot = captured.slots[storage.index]
        if len(roots.get(number, [])) != 1:
            raise CaptureError(
                f"{slot.name} is used through {len(roots.get(number, []))} different views",
                remedy="use it through one, or give the inference a job of its own",
            )
        storages[number] = Storage(StorageKind.input, len(inputs), storage.nbytes)
        inputs.append(roots[number][0])
        fixed.append(slot.initial_bytes().clone())
    replaced = dataclasses.replace(graph, storages=storages, inputs=inputs)
    return dataclasses.replace(captured, graph=replaced, slots=captured.slots[:known]), fixed
