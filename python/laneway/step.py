"""TrainStep: one training step of a user's model as a job of a service. Made by train_step()."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from laneway import loss_scaling
from laneway.capture import CapturedJobGraph, capture_train_step
from laneway.errors import InvalidInput, ServiceUnavailable
from laneway.graph_call import GraphCall
from laneway.job import Future, Job, create_job
from laneway.optimizers import StateTensor
from laneway.service import Service, default_service
from laneway.slots import Slot, SlotTensor

_TRAINING = 0


class TrainStep:
    """Call it with a batch: one iteration of training runs on the service and the loss comes back.

    The first call captures the step and offers the job; from then on parameters, buffers and
    optimizer state live in the service's pool and the client's own `model` keeps its old weights
    until `sync_to`. Random operators draw from the job's own generator, a copy of torch's default
    generator at the time the step was made. Thread-safe; iterations run in the order of the calls.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., Any] | None,
        optimizer: Optimizer,
        service: Service | None,
        name: str | None,
        priority: int,
        weight: float,
        total_iterations: int | None,
        closure: Callable[..., Any] | None,
        admission_timeout: float | None,
    ) -> None:
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.service = service if service is not None else default_service()
        self.name = name
        self._options = {
            "job_class": _TRAINING,
            "priority": priority,
            "weight": weight,
            "total_iterations": total_iterations,
        }
        self._closure = closure
        self._admission_timeout = admission_timeout
        self._random_state = torch.get_rng_state()
        self._scaler_state: dict[str, Any] = {}  # loaded before the step was captured
        self._lock = threading.RLock()
        self._closed = False
        self._stepped = False
        self.captured: CapturedJobGraph | None = None
        self.job: Job | None = None
        self._call: GraphCall | None = None
        self._hyperparameters: list[tuple[dict[str, Any], list[tuple[str, Any]]]] = []
        self._unwatch: Callable[[], None] | None = None

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """One iteration; the loss (with auxiliary outputs, if the step has them)."""
        return self._ready(inputs, kwargs).run(inputs, kwargs)

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """The same without waiting: a Future (`result(timeout=None)`, `done()`, awaitable)."""
        return self._ready(inputs, kwargs).submit(inputs, kwargs)

    def prepare(self, *inputs: Any, **kwargs: Any) -> None:
        """Captures the step for inputs like these, offers the job and waits for its memory, without
        running an iteration."""
        if self._call is None:
            self._first_call(inputs, kwargs)

    def state_dict(self) -> dict[str, Any]:
        """{"model": …, "optimizer": …} in torch's own layouts, loadable into plain torch; ordered
        after everything submitted before. With "scaler" once a step is captured that uses one."""
        with self._lock:
            self._check_open()
            if self.job is None or self.captured is None:
                model = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
                state = {"model": model, "optimizer": self.optimizer.state_dict()}
                return state | ({"scaler": self._scaler_state} if self._scaler_state else {})
            return self._read_state_dict(self.captured, self.job)

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
            self._write_state_dict(self.captured, self.job, state)

    def sync_to(
        self,
        model: torch.nn.Module,
        optimizer: Optimizer | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Copies the job's state into `model` (and `optimizer`, and `scaler`)."""
        state = self.state_dict()
        model.load_state_dict(state["model"])
        if optimizer is not None:
            optimizer.load_state_dict(state["optimizer"])
        if scaler is not None:
            loss_scaling.copy_to(scaler, state)

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, bytes and, per graph, what is known of its memory."""
        with self._lock:
            self._check_open()
            if self.job is None:
                raise InvalidInput("the step has not been called yet: there is no job to report")
            return self.job.report(with_tapes)

    def close(self) -> None:
        """Ends the job; idempotent. What is not synced to a model by then is gone."""
        with self._lock:
            self._closed = True
            self._call = None
            if self._unwatch is not None:
                self._unwatch()
                self._unwatch = None
            if self.job is not None:
                self.job.close()

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
        if self._closed:
            raise ServiceUnavailable(f"step {self.name or ''} was closed; make a new one to go on")
        self.service.native_handle()

    def _ready(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        """The graph to call, captured if need be, after the checks of every iteration."""
        call = self._call or self._first_call(inputs, kwargs)
        self._check_hyperparameters()
        self._stepped = True
        return call

    def _first_call(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            self._check_open()
            if self._call is not None:
                return self._call
            captured = capture_train_step(
                self.model,
                self.loss_fn,
                self.optimizer,
                inputs,
                kwargs,
                self._closure,
                self.name or "train",
            )
            if self._scaler_state:
                loss_scaling.known(captured.scaler).begin_from(captured.slots, self._scaler_state)
            job = create_job(
                self.service,
                self.name,
                captured.slots,
                captured.encode(),
                self._random_state,
                **self._options,
            )
            job.wait_until_placed(self._admission_timeout)
            _release_created(captured.slots)
            # Schedulers look at it to tell whether a step came before them.
            self.optimizer._opt_called = True
            self.captured, self.job, self.name = captured, job, job.name
            groups = zip(self.optimizer.param_groups, captured.hyperparameters or [])
            self._hyperparameters = [(group, list(known.items())) for group, known in groups]
            if captured.scaler is not None:
                held, known = captured.scaler.attributes()
                self._hyperparameters.append((held, list(known.items())))
            self._unwatch = _warn_when_called(self.model, job.name)
            self._call = GraphCall(job, 0, captured, self.optimizer)
            return self._call

    def _check_hyperparameters(self) -> None:
        for group, known in self._hyperparameters:
            for key, value in known:
                now = group[key]
                if now is not value and now != value:
                    raise InvalidInput(
                        f"{key} of the optimizer or scaler is {now}, the step was captured with "
                        f"{value}; "
                        "only the learning rate may change: make a new step"
                    )

    def _read_state_dict(self, captured: CapturedJobGraph, job: Job) -> dict[str, Any]:
        storages, _ = job.read_state(captured.slots)
        by_path = {t.path: (s, t) for s in captured.slots for t in s.tensors}

        def tensor(slot: Slot, described: SlotTensor) -> torch.Tensor:
            # A copy of its own, as torch's state_dict after a deep copy: views are not shared.
            return described.view(storages[slot.index])

        model: dict[str, Any] = {}
        for key, current in self.model.state_dict().items():
            found = by_path.get(("model", key))
            model[key] = tensor(*found) if found else current.detach().clone()

        def entry(state: StateTensor) -> torch.Tensor:
            slot = captured.slots[state.slot]
            return tensor(slot, slot.tensors[state.position])

        assert captured.optimizer_layout is not None
        layout = captured.optimizer_layout
        state = {
            "model": model,
            "optimizer": layout.state_dict(self.optimizer, entry, stepped=self._stepped),
        }
        if captured.scaler is not None:
            state["scaler"] = captured.scaler.state_dict(captured.slots, storages)
        return state

    def _write_state_dict(
        self, captured: CapturedJobGraph, job: Job, state: dict[str, Any]
    ) -> None:
        storages, _ = job.read_state(captured.slots)
        by_path = {t.path: (s, t) for s in captured.slots for t in s.tensors}
        for key, given in state["model"].items():
            found = by_path.get(("model", key))
            if found is not None:
                _copy_into(found[1].view(storages[found[0].index]), given, f"model/{key}")
        layout = captured.optimizer_layout
        assert layout is not None
        given_state = state["optimizer"]["state"]
        for index, entries in layout.entries.items():
            for key, kept in entries.items():
                if not isinstance(kept, StateTensor):
                    continue
                slot = captured.slots[kept.slot]
                target = slot.tensors[kept.position].view(storages[slot.index])
                where = f"optimizer/{index}/{key}"
                given = given_state.get(index, {}).get(key)
                if given is None:
                    # torch would create it in its next step, as capture did.
                    target.copy_(_initial_value(slot))
                else:
                    _copy_into(target, torch.as_tensor(given), where)
        if state.get("scaler"):
            scaler = loss_scaling.known(captured.scaler)
            scaler.take(captured.slots, storages, state["scaler"])
        self._take_learning_rates(state["optimizer"]["param_groups"])
        job.write_state(captured.slots, storages)
        self._stepped = bool(given_state)

    def _take_learning_rates(self, groups: list[dict[str, Any]]) -> None:
        for ours, given in zip(self.optimizer.param_groups, groups):
            for key in ("lr", "initial_lr"):
                if key in given:
                    ours[key] = given[key]


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
) -> TrainStep:
    """A training step to call with batches: loss_fn(model(*inputs[:-1]), inputs[-1]), backward and
    optimizer.step(), captured at the first call and run by `service` (default: one embedded in this
    process).

    `closure(model, optimizer, *inputs)` -> loss or (loss, aux…) replaces that step; it may scale
    its loss with a torch.amp.GradScaler when the optimizer is made with fused=True. `name` is how
    others see the job; `priority`, `weight` and `total_iterations` are for policies that look at
    them. A job that finds no room waits, at most `admission_timeout` seconds (None: as long as it
    takes; 0: not at all), then Refused says why. Errors: CaptureError, OutOfMemory when the job can
    never fit the pool, Refused, InvalidInput.
    """
    if loss_fn is None and closure is None:
        raise InvalidInput("a training step needs loss_fn or closure, both are None")
    return TrainStep(
        model,
        loss_fn,
        optimizer,
        service,
        name,
        priority,
        weight,
        total_iterations,
        closure,
        admission_timeout,
    )


def _initial_value(slot: Slot) -> torch.Tensor:
    """What every element of a created slot starts with."""
    if not slot.created:
        raise InvalidInput(f"{slot.name} is missing from the optimizer's state")
    return slot.initial.reshape(-1)[0]


def _release_created(slots: list[Slot]) -> None:
    """Gives back the memory of state that capture made: its bytes are in the service now. Each
    tensor's first element stays, for load_state_dict: such state starts with one value in all."""
    for slot in slots:
        if slot.created and slot.initial.numel() > 0:
            slot.initial = slot.initial.reshape(-1)[:1].clone()


def _copy_into(target: torch.Tensor, given: torch.Tensor, where: str) -> None:
    if tuple(target.shape) != tuple(given.shape):
        raise InvalidInput(
            f"{where} has shape {list(given.shape)}, the job's has {list(target.shape)}"
        )
    target.copy_(given)


def _warn_when_called(model: torch.nn.Module, name: str) -> Callable[[], None]:
    """Warns once when `model` is called in training mode while its weights live in the service."""

    def warn(module: torch.nn.Module, args: Any) -> None:
        if not module.training:
            return
        handle.remove()
        warnings.warn(
            f"this model is trained by job {name!r}: its own weights are those of before; use "
            "step.sync_to(model) first, or laneway.inference(step) for the current ones",
            stacklevel=3,
        )

    handle = model.register_forward_pre_hook(warn)
    return handle.remove
