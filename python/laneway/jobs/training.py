"""train_step() and the decorator step(): the two ways to make a TrainStep."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given
from laneway.errors import InvalidInput
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.forms.alike import Alike
from laneway.jobs.service import Service
from laneway.jobs.step import TrainStep
from laneway.jobs.step_options import StepOptions


def train_step(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    loss_fn: Callable[..., Any] | None,
    optimizer: Optimizer | Sequence[Optimizer] | None,
    service: Service | None = None,
    name: str | None = None,
    priority: int = 0,
    weight: float = 1.0,
    total_iterations: int | None = None,
    deadline: float | None = None,
    job_class: str | None = None,
    closure: Callable[..., Any] | None = None,
    admission_timeout: float | None = None,
    keep_gradients: bool | None = None,
    max_variants: int = 8,
    shared: bool = False,
    replay: str = "auto",
    random: str | None = None,
    sync: str = "on_read",
    like: TrainStep | None = None,
    verify: bool | int | None = None,
    iteration_s: float | None = None,
) -> TrainStep:
    """Makes a training step, to be called with batches. One call is one iteration:
    loss_fn(model(*inputs[:-1]), inputs[-1]), backward and optimizer.step(). The first call captures
    the iteration; `service` (None: a service embedded in this process) runs it.

    - `loss_fn`: None when the model returns its own loss: alone, first in a tuple, or as the entry
      "loss" of a dictionary. Of a dictionary the step returns the loss alone.
    - `model`, `optimizer`: one, or lists of several, which need a closure; it gets the lists. Their
      states in state_dict() are lists too, and sync_to() takes lists. `optimizer` None is for a
      closure that updates the weights itself, or only computes gradients (see keep_gradients).
    - `closure`: closure(model, optimizer, *inputs) -> loss or (loss, aux…) replaces the iteration
      above. It runs only at capture, so its decisions in Python must depend on its arguments alone.
      It may scale its loss with a torch.amp.GradScaler if the optimizer is made with fused=True.
    - `name`: the job's name in the status and for attach().
    - `priority` (higher is more urgent), `weight` (of the device's time): see policies/README.md.
    - `total_iterations`: how many iterations it will run: policies compute what is left from it.
    - `deadline`: so many seconds after the job's offer all of its iterations should be done.
    - `iteration_s`: seconds of one iteration, until one of it or of an equal job was measured.
    - `job_class`: "training" (None means it), "inference", or "best_effort", which runs when no job
      of another class in its lane has work.
    - `admission_timeout`: how many seconds the first call waits for room in the pool before it
      raises Refused. None: without a limit. 0: it does not wait.
    - `keep_gradients`: True: gradients are state of the job. None: if the first call reads older
      ones, leaves some of parameters that it does not update, or the code around reads `.grad`.
    - `max_variants`: how many forms of call stay captured; other places of inputs count as one.
    - `shared`: other clients of the same user may join the job by its name: see laneway.attach.
    - `replay`: whether a device records an iteration's work and replays it, where the work needs
      nothing of the CPU: "auto" (the service decides), "on" or "off".
    - `random`: "shared": a step draws from torch's default generator, and those that it gives to
      operators, and moves them, as eager does; one step of a process at a time. "own": it draws
      from the job's. None: "shared" on the CPU, "own" on CUDA, which draws other numbers.
    - `sync`: "on_read": the client's model and optimizer are up to date for who reads them, and
      what is written to them goes to the job (see docs/design/weights.md). "manual": see sync_to().
    - `like`: a step whose captures this one takes, for models and optimizers that were made alike.
      The first call compares all constants of the graph, and refuses what differs.
    - `verify`: True: iterations 1, 2, 4, 8, … also run in eager execution, on copies of the state;
      N: every N-th besides. A bit that differs raises VerificationError: see docs/porting.md.

    Errors of the first call: CaptureError, OutOfMemory (it can never fit), Refused, InvalidInput.
    """
    _check_given(model, optimizer, closure)
    options = StepOptions(
        service=service, name=name, closure=closure, admission_timeout=admission_timeout,
        scheduling=Scheduling(priority, weight, total_iterations, deadline, job_class, iteration_s),
        keep_gradients=keep_gradients, max_variants=max_variants, shared=shared, replay=replay,
        random=random, sync=sync, like=_captures_of(like), verify=verify,
    )  # fmt: skip
    return TrainStep(model, loss_fn, optimizer, options)


def _captures_of(like: TrainStep | None) -> Alike | None:
    if like is not None and not isinstance(like, TrainStep):
        raise InvalidInput(f"like is a {type(like).__name__}: give a step that train_step() made")
    return None if like is None else like.alike


def _check_given(model: Any, optimizer: Any, closure: Any) -> None:
    """Raises InvalidInput for models and optimizers that no step can have."""
    for name, what, kind in (
        ("model", model, torch.nn.Module),
        ("optimizer", optimizer, Optimizer),
    ):
        every = given.all_of(what)
        if not every and (name == "model" or given.is_list(what)):
            raise InvalidInput(
                f"{name} is {what!r}: give the step at least one {name}, or optimizer=None"
                if name == "optimizer"
                else f"{name} is {what!r}: give the step at least one {name}"
            )
        for number, one in enumerate(every):
            if not isinstance(one, kind):
                place = f"{name}[{number}]" if given.is_list(what) else name
                raise InvalidInput(
                    f"{place} is a {type(one).__name__}: give a torch {kind.__name__}, or a list "
                    "of several"
                )
    if closure is not None:
        return
    if optimizer is None or given.is_list(model) or given.is_list(optimizer):
        raise InvalidInput(
            "a step with optimizer=None, or with a list of models or optimizers, needs closure=, "
            "which says what one iteration does; or decorate a function with laneway.step(models, "
            "optimizers)"
        )


def step(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: Optimizer | Sequence[Optimizer] | None,
    **options: Any,
) -> Callable[[Callable[..., Any]], TrainStep]:
    """A decorator that makes a TrainStep of a function whose body is one iteration of a training
    loop, as it stands in eager PyTorch:

        @laneway.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        for x, y in loader:
            loss = train(x, y)

    Several models and optimizers are lists: step([netD, netG], [optD, optG]). The function uses
    them by its own names. Its arguments are what changes from call to call. It runs only at
    capture, so what it decides by in Python must depend on its arguments alone. What it returns,
    the step returns.
    `options` are those of train_step, but `loss_fn` and `closure`. Errors are those of
    train_step."""
    for name in ("closure", "loss_fn"):
        if name in options:
            raise InvalidInput(f"step() takes no {name}: the decorated function is the iteration")

    def decorate(function: Callable[..., Any]) -> TrainStep:
        def iteration(_model: Any, _optimizer: Any, *inputs: Any, **kwargs: Any) -> Any:
            return function(*inputs, **kwargs)

        made = train_step(model, None, optimizer, closure=iteration, **options)
        functools.update_wrapper(made, function)
        return made

    return decorate
