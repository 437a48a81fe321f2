"""Inference: a model's forward pass as a graph of a service: of a job of its own, or of a training
step's job, whose current weights it then uses. Made by inference()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph, capture_inference
from laneway.graph.target import target_of
from laneway.jobs import lazy_modules
from laneway.jobs.attachment import JoinedImage
from laneway.jobs.capture_gate import gate_of
from laneway.jobs.conditions import Conditions
from laneway.jobs.graph_call import GraphCall, call_of
from laneway.jobs.job import Future, Job, check_replay, create_job
from laneway.jobs.owned_job import OwnedJob
from laneway.jobs.service import Service, default_service
from laneway.jobs.step import TrainStep
from laneway.jobs.variants import Variants
from laneway.native.process import ProcessLock

_INFERENCE = 1


class Inference:
    """Call it with inputs; the model's outputs come back. Captured at the first call, in evaluation
    mode, without gradients; calls of another form (shapes, dtypes, other arguments) are captured
    again. Of a training step it runs in that job's lane, between iterations, on the weights as they
    are then, and keeps the step. Thread-safe. A job of its own ends with close(), or when nobody
    holds the inference or a Future any more."""

    def __init__(
        self,
        model_or_step: torch.nn.Module | TrainStep | JoinedImage,
        service: Service | None,
        name: str | None,
        priority: int,
        admission_timeout: float | None,
        closure: Callable[..., Any] | None,
        max_variants: int,
        shared: bool,
        replay: str = "auto",
    ) -> None:
        joins = isinstance(model_or_step, (TrainStep, JoinedImage))
        self._step = model_or_step if joins else None
        self._model = self._step.model if self._step is not None else model_or_step
        if self._step is not None:
            service = self._step.service
        self.service = service if service is not None else default_service()
        self.name = name
        self._priority = priority
        self._shared = shared
        self._replay = replay
        self._admission_timeout = admission_timeout
        self._closure = closure
        self._random_state = torch.get_rng_state()
        self._lock = ProcessLock()
        self._owned = OwnedJob("inference")
        self._captured: CapturedJobGraph | JoinedImage | None = (
            None  # whose slots are the job's image
        )
        self.job: Job | None = None
        self._gate = gate_of(self._model)
        self._variants = Variants(
            "inference", max_variants, Conditions(), self._gate, self._capture
        )

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """model(*inputs, **kwargs) with the job's weights."""
        return self._variants.run(inputs, kwargs)

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """The same without waiting. It works on copies: what the model writes into its inputs is
        not given back, and a warning says so."""
        return self._variants.submit(inputs, kwargs)

    def close(self) -> None:
        """Ends the job, if it is this inference's own; idempotent."""
        if not self._lock.is_here():
            return
        self._owned.close()
        self._variants.close()

    def __enter__(self) -> Inference:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _capture(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            self._owned.check_open(self.name)
            if self._step is not None:
                self._captured, self.job = self._step.ensure_job()

            def capture() -> CapturedJobGraph:
                return capture_inference(
                    self._model,
                    inputs,
                    kwargs,
                    slots_of=self._captured,
                    name=self.name or "inference",
                    closure=self._closure,
                    target=target_of(self.service),
                )

            with self._gate.capturing():
                if self._captured is None and lazy_modules.has_lazy(self._model):
                    self._random_state = lazy_modules.initialise(
                        self._model, capture, self._random_state
                    )
                captured = capture()
            if self.job is not None:
                self.name = self.name or self.job.name
                return call_of(self.job, self.job.add_graph(captured.encode()), captured)
            self.job = self._offer(captured)
            self._captured, self.name = captured, self.job.name
            return call_of(self.job, 0, captured)

    def _offer(self, captured: CapturedJobGraph) -> Job:
        def make() -> Job:
            return create_job(
                self.service,
                self.name,
                captured.slots,
                captured.encode(),
                self._random_state,
                job_class=_INFERENCE,
                priority=self._priority,
                weight=1.0,
                total_iterations=None,
                shared=self._shared,
                replay=self._replay,
            )

        return self._owned.place(make, self._admission_timeout)


def inference(
    model_or_step: torch.nn.Module | TrainStep,
    service: Service | None = None,
    name: str | None = None,
    priority: int = 0,
    admission_timeout: float | None = None,
    closure: Callable[..., Any] | None = None,
    max_variants: int = 8,
    shared: bool = False,
    replay: str = "auto",
) -> Inference:
    """An inference to call with inputs. Of a model: a job of its own, with the model's weights at
    the first call. Of a step (which must have a job: called or prepared): another graph of its job,
    in the same lane, with its current weights. `closure(model, *inputs)` replaces
    model(*inputs): an evaluation with losses and metrics, say. `max_variants` forms of call
    (shapes, dtypes, other arguments) are kept captured at a time. `shared` and `replay`, as for
    train_step, of a job of its own. Errors as for train_step."""
    check_replay(replay)
    return Inference(
        model_or_step,
        service,
        name,
        priority,
        admission_timeout,
        closure,
        max_variants,
        shared,
        replay,
    )


def joined_inference(
    image: JoinedImage, closure: Callable[..., Any] | None, max_variants: int
) -> Inference:
    """An inference of an attached job, for Attachment."""
    return Inference(image, None, None, 0, None, closure, max_variants, False)
