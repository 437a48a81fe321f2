"""LanewayAccelerator: an Accelerator whose loop runs its iterations in Laneway.

The body of a loop with Accelerate stands in the loop, and a step of a job is one call. So two
things change: the accelerator's class, and the body becomes a function with a decorator:

    accelerator = LanewayAccelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    @accelerator.iteration(model, optimizer)
    def train(x, y):
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for x, y in loader:
        with accelerator.accumulate(model):  # where it accumulates: around the call
            loss = train(x, y)
        scheduler.step()

Equal to Accelerator on the CPU, bit for bit: losses, norms, weights, and what save_state and
save_model write, which an Accelerator of either kind loads. Accumulation, clipping, schedulers and
mixed_precision="bf16" work as before. `model` and `optimizer` outside of the function have the
trained weights when they are read, and load_state goes on with what it loaded.

Refused: backward and clipping outside of such a function; accumulate inside of it, because it
counts batches in Python; scheduler.step() and other changes of the optimizer's groups inside of it;
fp16 with its loss scaling; other devices of the client than the CPU (the service has the device),
several processes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer

from laneway.errors import InvalidInput
from laneway.jobs.calls.job import Future
from laneway.jobs.step import TrainStep
from laneway.jobs.training import train_step


class LanewayAccelerator(Accelerator):
    """An Accelerator on the CPU, with `iteration`. end_training() and free_memory() end the jobs:
    then models and optimizers have their state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._captures = False  # inside the function of an iteration
        self._iterations: list[Iteration] = []
        super().__init__(*args, **({"cpu": True} | kwargs))
        if self.device.type != "cpu":
            raise InvalidInput(
                f"LanewayAccelerator: the device is {self.device}, and the client's model must be "
                "on the CPU (the service has the device): leave out cpu=False"
            )
        if self.num_processes > 1:
            raise InvalidInput(
                f"LanewayAccelerator: {self.num_processes} processes train one model, and a job is "
                "of one process: start one process"
            )
        if self.scaler is not None:
            raise InvalidInput(
                'LanewayAccelerator: mixed_precision="fp16" scales the loss by a GradScaler, which '
                'Accelerate steps in Python: give "bf16" or "no"'
            )

    def iteration(
        self, model: torch.nn.Module, optimizer: AcceleratedOptimizer, **options: Any
    ) -> Callable[[Callable[..., Any]], Iteration]:
        """A decorator that makes an Iteration of a function whose body is that of the loop. `model`
        and `optimizer` must be prepared. `options` are those of laneway.step. Raises
        InvalidInput."""
        for name in ("closure", "loss_fn", "keep_gradients", "sync"):
            if name in options:
                raise InvalidInput(f"iteration(): {name} is set by LanewayAccelerator itself")
        if not isinstance(optimizer, AcceleratedOptimizer):
            raise InvalidInput(
                f"iteration(): the optimizer is a {type(optimizer).__name__}, not prepared: give "
                "what accelerator.prepare(optimizer) returns"
            )

        def decorate(function: Callable[..., Any]) -> Iteration:
            def closure(
                _model: Any, _optimizer: Any, _form: tuple[bool, int], *inputs: Any, **kwargs: Any
            ) -> Any:
                with self._capturing():
                    return function(*inputs, **kwargs)

            keeps = True if self.gradient_accumulation_steps > 1 else None
            step = train_step(
                model,
                None,
                optimizer.optimizer,
                closure=closure,
                keep_gradients=keeps,
                **options,
            )
            made = Iteration(self, step)
            functools.update_wrapper(made, function)
            self._iterations.append(made)
            return made

        return decorate

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        self._check_inside("backward")
        super().backward(loss, **kwargs)

    def clip_grad_norm_(self, *args: Any, **kwargs: Any) -> Any:
        self._check_inside("clip_grad_norm_")
        return super().clip_grad_norm_(*args, **kwargs)

    def clip_grad_value_(self, *args: Any, **kwargs: Any) -> None:
        self._check_inside("clip_grad_value_")
        super().clip_grad_value_(*args, **kwargs)

    def accumulate(self, *models: torch.nn.Module) -> AbstractContextManager[None]:
        if self._captures:
            raise InvalidInput(
                "LanewayAccelerator: accumulate() inside of an iteration counts batches in Python, "
                "which would happen at capture only: put it around the call of the iteration"
            )
        return super().accumulate(*models)

    def end_training(self) -> None:
        self._end()
        super().end_training()

    def free_memory(self, *objects: Any) -> list[Any]:
        self._end()
        return super().free_memory(*objects)

    def _end(self) -> None:
        iterations, self._iterations = self._iterations, []
        for each in iterations:
            each.step.close()

    def _check_inside(self, what: str) -> None:
        if not self._captures:
            raise InvalidInput(
                f"LanewayAccelerator: {what}() outside of an iteration would compute in this "
                "process: put the body of the loop into a function, and decorate it with "
                "accelerator.iteration(model, optimizer)"
            )

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        self._captures = True
        try:
            yield
        finally:
            self._captures = False


class Iteration:
    """Call it with a batch: the service runs the function's body once, and the call returns what
    the function returns. Whether that is an accumulating call or one that steps the optimizer, the
    accelerator says. `step` is the TrainStep."""

    def __init__(self, accelerator: Accelerator, step: TrainStep) -> None:
        self._accelerator = accelerator
        self.step = step

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.step(self._form(), *inputs, **kwargs)

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """The same without waiting: see TrainStep.submit."""
        return self.step.submit(self._form(), *inputs, **kwargs)

    def _form(self) -> tuple[bool, int]:
        """What the prepared optimizer and backward() go by."""
        accelerator = self._accelerator
        return accelerator.sync_gradients, accelerator.gradient_accumulation_steps
