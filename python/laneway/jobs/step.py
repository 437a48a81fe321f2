"""TrainStep: one training step of a user's model as a job of a service. Made by train_step()."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import loss_scaling
from laneway.capture.capture import CapturedJobGraph, capture_inference, capture_train_step
from laneway.capture.fake_job import is_captured
from laneway.capture.kept_gradients import gradient_path
from laneway.errors import CaptureError, InvalidInput
from laneway.graph.slots import Path, Slot
from laneway.graph.target import Target
from laneway.jobs import lazy_modules
from laneway.jobs.capture_gate import gate_of
from laneway.jobs.conditions import Conditions
from laneway.jobs.graph_call import GraphCall, call_of
from laneway.jobs.job import Future, Job, check_replay, create_job
from laneway.jobs.job_state import JobState, load_optimizer, release_created, set_gradients
from laneway.jobs.owned_job import OwnedJob
from laneway.jobs.service import Service, default_service
from laneway.jobs.variants import Variants
from laneway.native.process import ProcessLock

_TRAINING = 0


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """What train_step takes besides model, loss and optimizer; it says what each is."""

    service: Service | None
    name: str | None
    priority: int
    weight: float
    total_iterations: int | None
    closure: Callable[..., Any] | None
    admission_timeout: float | None
    keep_gradients: bool | None
    max_variants: int
    shared: bool
    replay: str


class TrainStep:
    """Call it with a batch: one iteration of training runs on the service and the loss comes back.

    The first call captures the step and offers the job; from then on parameters, buffers and
    optimizer state live in the service's pool and the client's own `model` keeps its old weights
    until `sync_to`. A call of another form (shapes, dtypes, other arguments, hyperparameters,
    train() or eval()) is captured again, over the same state. Random operators draw from the job's
    own generator, a copy of torch's default generator at the time the step was made. Thread-safe;
    iterations run in the order of the calls.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., Any] | None,
        optimizer: Optimizer,
        options: StepOptions,
    ) -> None:
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.service = options.service if options.service is not None else default_service()
        self.name = options.name
        self._options = options
        self._random_state = torch.get_rng_state()
        self._scaler_state: dict[str, Any] = {}  # loaded before the step was captured
        self._lock = ProcessLock()
        self._owned = OwnedJob("step")
        self.captured: CapturedJobGraph | None = None  # the job's first graph
        self.job: Job | None = None
        modules = [m for m in (model, loss_fn) if isinstance(m, torch.nn.Module)]
        self._conditions = Conditions(modules, optimizer)
        self._gate = gate_of(model)
        self._variants = Variants(
            "step", options.max_variants, self._conditions, self._gate, self._capture
        )
        # What the state has, apart from bytes: as of the last call, or as loaded.
        self._stepped = False
        self._gradients: set[Path] = set()
        self._unwatch: weakref.finalize | None = None

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """One iteration; the loss (with auxiliary outputs, if the step has them)."""
        result = self._variants.run(inputs, kwargs)
        self._note_call()
        return result

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """The same without waiting: a Future (`result(timeout=None)`, `done()`, awaitable). It
        works on copies: what the step writes into its inputs is not given back, and a warning says
        so."""
        future = self._variants.submit(inputs, kwargs)
        self._note_call()
        return future

    def prepare(self, *inputs: Any, **kwargs: Any) -> None:
        """Captures the step for inputs like these, offers the job and waits for its memory, without
        running an iteration."""
        self._variants.prepare(inputs, kwargs)

    def state_dict(self) -> dict[str, Any]:
        """{"model": …, "optimizer": …} in torch's own layouts, loadable into plain torch; ordered
        after everything submitted before. A job that keeps gradients has them under "gradients",
        by parameter; one that uses a GradScaler has its state under "scaler"."""
        with self._lock:
            self._check_open()
            if self.job is None or self.captured is None:
                model = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
                state = {"model": model, "optimizer": self.optimizer.state_dict()}
                return state | ({"scaler": self._scaler_state} if self._scaler_state else {})
            return self._state().read(self._stepped, self._gradients)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what state_dict (or plain torch) gave; ordered likewise. Raises InvalidInput naming
        the entry that does not fit."""
        with self._lock:
            self._check_open()
            if self.job is None or self.captured is None:
                self.model.load_state_dict(state["model"])
                self.optimizer.load_state_dict(state["optimizer"])
                self._scaler_state = dict(state.get("scaler") or {})
                return
            self._gradients = self._state().write(state)
            self._stepped = bool(state["optimizer"]["state"])

    def sync_to(
        self,
        model: torch.nn.Module,
        optimizer: Optimizer | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Copies the job's state into `model` (and `optimizer`, and `scaler`)."""
        state = self.state_dict()
        try:
            model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise InvalidInput(f"the job's state does not go into this model: {error}") from error
        if optimizer is not None:
            load_optimizer(optimizer, state["optimizer"], self.optimizer)
        if scaler is not None:
            loss_scaling.copy_to(scaler, state)
        if self.captured is not None:
            set_gradients(model, self.captured.gradients, state.get("gradients", {}))

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, bytes and, per graph, what is known of its memory."""
        with self._lock:
            self._check_open()
            if self.job is None:
                raise InvalidInput("the step has not been called yet: there is no job to report")
            return self.job.report(with_tapes)

    def close(self) -> None:
        """Ends the job; idempotent. What is not synced to a model by then is gone. Calls that other
        threads are inside get their result or an error; a capture ends first."""
        if not self._lock.is_here():
            return
        self._owned.close()
        # Without the lock: a capture takes its own behind that of the variants.
        self._variants.close()
        with self._lock:
            if self._unwatch is not None:
                self._unwatch()

    def __enter__(self) -> TrainStep:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ensure_job(self) -> tuple[CapturedJobGraph, Job]:
        """For the package itself: the capture and the job. Raises InvalidInput before the first
        call."""
        with self._lock:
            self._check_open()
            if self.job is None or self.captured is None:
                raise InvalidInput(
                    "the step has no job yet: call it once, or prepare() it, with a batch"
                )
            return self.captured, self.job

    def _check_open(self) -> None:
        self._owned.check_open(self.name)
        self.service.native_handle()

    def _note_call(self) -> None:
        """What the call has made of the state: the graph that ran last tells."""
        call = self._variants.current
        if call is None:
            return
        if call.captured.steps_optimizer:
            self._stepped = True
        if call.captured.gradients:
            self._gradients = {path for path, has in call.captured.gradients.items() if has}

    def _capture(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            self._check_open()
            with self._gate.capturing():
                self._initialise(inputs, kwargs)
                captured = capture_train_step(
                    self.model,
                    self.loss_fn,
                    self.optimizer,
                    inputs,
                    kwargs,
                    self._options.closure,
                    self.name or "train",
                    self.captured,
                    self._options.keep_gradients,
                    Target(self.service.kernels),
                )
            if self.job is not None:
                return call_of(
                    self.job, self.job.add_graph(captured.encode()), captured, self.optimizer
                )
            if captured.scaler is not None:
                self._conditions.add(*captured.scaler.attributes())
            if self._scaler_state:
                loss_scaling.known(captured.scaler).begin_from(captured.slots, self._scaler_state)
            self.job = self._offer(captured)
            self.captured, self.name = captured, self.job.name
            self._gradients = {
                path
                for path in captured.gradients
                if not _slot_of(captured, gradient_path(path)).created
            }
            release_created(captured.slots)
            # Schedulers look at it to tell whether a step came before them.
            self.optimizer._opt_called = True
            self._unwatch = weakref.finalize(self, _warn_when_called(self.model, self.job.name))
            self._unwatch.atexit = False
            return call_of(self.job, 0, captured, self.optimizer)

    def _initialise(self, inputs: tuple, kwargs: dict[str, Any]) -> None:
        """Lazy modules before their first call, as that would."""
        if self.captured is not None or not lazy_modules.has_lazy(self.model):
            return
        if self._options.closure is not None:
            raise CaptureError("the model has lazy modules", remedy=lazy_modules.REMEDY)
        given = inputs[:-1] if self.loss_fn is not None else inputs
        self._random_state = lazy_modules.initialise(
            self.model,
            lambda: capture_inference(
                self.model, given, kwargs, train_mode=True, target=Target(self.service.kernels)
            ),
            self._random_state,
        )

    def _offer(self, captured: CapturedJobGraph) -> Job:
        options = self._options

        def make() -> Job:
            return create_job(
                self.service,
                self.name,
                captured.slots,
                captured.encode(),
                self._random_state,
                job_class=_TRAINING,
                priority=options.priority,
                weight=options.weight,
                total_iterations=options.total_iterations,
                shared=options.shared,
                replay=options.replay,
            )

        return self._owned.place(make, options.admission_timeout)

    def _state(self) -> JobState:
        captured, job = self.ensure_job()
        last = self._variants.current
        # A form that does not scale its loss leaves the scaler's state as it is.
        scaler = (last.captured.scaler if last is not None else None) or captured.scaler
        return JobState(captured, job, self.model, self.optimizer, scaler)


def train_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: Optimizer,
    service: Service | None = None,
    name: str | None = None,
    priority: int = 0,
    weight: float = 1.0,
    total_iterations: int | None = None,
    closure: Callable[..., Any] | None = None,
    admission_timeout: float | None = None,
    keep_gradients: bool | None = None,
    max_variants: int = 8,
    shared: bool = False,
    replay: str = "auto",
) -> TrainStep:
    """A training step to call with batches: loss_fn(model(*inputs[:-1]), inputs[-1]), backward and
    optimizer.step(), captured at the first call and run by `service` (default: one embedded in this
    process). Without loss_fn the model returns its loss: alone, first in a tuple, or as the entry
    "loss" of a dictionary, which alone is then the result of the step.

    `closure(model, optimizer, *inputs)` -> loss or (loss, aux…) replaces that step; it runs at
    capture only, so what it decides in Python must depend on its arguments alone. It may scale its
    loss with a torch.amp.GradScaler when the optimizer is made with fused=True. `name` is how
    others see the job; `priority`, `weight` and `total_iterations` are for policies that look at
    them. A job that finds no room waits, at most `admission_timeout` seconds (None: as long as it
    takes; 0: not at all), then Refused says why. `keep_gradients` makes gradients part of the
    job's state, for micro-batches accumulated over several calls; None: if the first call uses
    older gradients, or leaves some without a step of the optimizer. `max_variants` forms of call
    are kept captured at a time. Others of the same user may join a job that is `shared`, by its
    name: see laneway.attach. `replay`: whether a device records the work of an iteration, as far
    as it needs nothing of the CPU, and replays it at once: "auto", as the service sees fit, "on"
    or "off". Errors: CaptureError, OutOfMemory when the job can never fit the pool, Refused,
    InvalidInput.
    """
    check_replay(replay)
    options = StepOptions(
        service=service,
        name=name,
        priority=priority,
        weight=weight,
        total_iterations=total_iterations,
        closure=closure,
        admission_timeout=admission_timeout,
        keep_gradients=keep_gradients,
        max_variants=max_variants,
        shared=shared,
        replay=replay,
    )
    return TrainStep(model, loss_fn, optimizer, options)


def _slot_of(captured: CapturedJobGraph, path: Path) -> Slot:
    return next(s for s in captured.slots if any(t.path == path for t in s.tensors))


def _warn_when_called(model: torch.nn.Module, name: str) -> Callable[[], None]:
    """Warns once when `model` is called in training mode while its weights live in the service."""

    def warn(module: torch.nn.Module, args: Any) -> None:
        if not module.training or is_captured(module):
            return
        handle.remove()
        warnings.warn(
            f"this model is trained by job {name!r}: its own weights are those of before; use "
            "step.sync_to(model) first, or laneway.inference(step) for the current ones",
            stacklevel=3,
        )

    handle = model.register_forward_pre_hook(warn)
    return handle.remove
