"""LanewayTrainer: transformers.Trainer whose training steps run in Laneway. One line changes:

    trainer = LanewayTrainer(model=model, args=args, train_dataset=dataset)

`laneway_options` takes what laneway.train_step takes besides loss function and closure: `service`,
`name`, `priority`, ... Without `service` a service embedded in this process runs the steps.

Equal to Trainer, bit for bit: logged losses and gradient norms, learning rates, metrics of
evaluation and prediction, weights, and checkpoints, which either of the two resumes from. Among
what works as before: accumulation with a short last group, max_grad_norm, dropout, bf16, schedules,
label smoothing, compute_loss_func, load_best_model_at_end, and subclasses that override
compute_loss or training_step.

What differs:

- compute_loss, training_step and the model's forward run in Python only when a form of batch is
  captured: what they decide by must be in their arguments. A value that changes between steps
  (self.state.global_step) is a constant there. Pass it in the batch, as a tensor.
- Callbacks see no gradients. A callback with on_pre_optimizer_step is refused.
- Evaluation and prediction run in the client's process, with the current weights.
- Refused: devices of the client other than the CPU (pass use_cpu=True; the service has the device),
  several processes, fp16 with its loss scaling, torch_compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from laneway.errors import InvalidInput
from laneway.jobs.step import TrainStep
from laneway.jobs.training import train_step
from laneway.jobs.watch.watched import quietly


class LanewayTrainer(Trainer):
    """A Trainer, except for what the module's text lists. The job begins with the first training
    step and ends with train(); then the model and the optimizer have the job's state, also after an
    exception, unless the service is gone."""

    def __init__(
        self, *args: Any, laneway_options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._laneway_options = dict(laneway_options or {})
        for name in ("closure", "loss_fn", "keep_gradients", "sync"):
            if name in self._laneway_options:
                raise InvalidInput(f"laneway_options: {name} is set by LanewayTrainer itself")
        self._laneway_step: TrainStep | None = None
        self._laneway_norm: torch.Tensor | None = None
        super().__init__(*args, **kwargs)

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: Mapping[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        if self._laneway_step is None:
            self._laneway_step = self._new_step(model, type(inputs))
        model.train()
        state = self.accelerator.gradient_state
        loss, self._laneway_norm = self._laneway_step(
            dict(inputs),
            num_items_in_batch,
            self.current_gradient_accumulation_steps,
            state.sync_gradients,
        )
        # The optimizer that Accelerate prepared has stepped: its step() does nothing from here to
        # the next batch.
        state._set_sync_gradients(False)
        return loss

    def floating_point_ops(self, inputs: Mapping[str, Any]) -> int:
        with quietly():  # parameters are counted, not read
            return super().floating_point_ops(inputs)

    def _clip_grad_norm(self, model: torch.nn.Module) -> Any:
        return self._laneway_norm

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        return self._laneway_norm

    def _inner_training_loop(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._inner_training_loop(*args, **kwargs)
        finally:
            self._end()

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self._end()  # before the best model is loaded
        return super()._finalize_training(*args, **kwargs)

    def _end(self) -> None:
        step, self._laneway_step = self._laneway_step, None
        if step is not None:
            step.close()

    def _new_step(self, model: torch.nn.Module, batch_type: type) -> TrainStep:
        self._check()
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)

        def iteration(
            _model: Any,
            _optimizer: Any,
            inputs: dict[str, Any],
            items: Any,
            divisor: int,
            last: bool,
        ) -> tuple[torch.Tensor, torch.Tensor | None]:
            self.current_gradient_accumulation_steps = divisor
            batch = inputs if batch_type is dict else batch_type(inputs)
            loss = super(LanewayTrainer, self).training_step(model, batch, items)
            if not last:
                return loss, None
            norm = None
            if self.args.max_grad_norm > 0:
                norm = super(LanewayTrainer, self)._clip_grad_norm(model)
            norm = super(LanewayTrainer, self)._get_grad_norm(model, grad_norm=norm)
            optimizer.step()
            model.zero_grad()
            return loss, norm

        keeps = True if self.args.gradient_accumulation_steps > 1 else None
        return train_step(
            model, None, optimizer, closure=iteration, keep_gradients=keeps, **self._laneway_options
        )

    def _check(self) -> None:
        """Raises InvalidInput for what a captured step cannot do as Trainer does it."""
        device = self.args.device
        if device.type != "cpu":
            raise InvalidInput(
                f"LanewayTrainer: the Trainer's device is {device}, and the client's model must be "
                "on the CPU (the service has the device): pass TrainingArguments(use_cpu=True)"
            )
        if self.accelerator.num_processes > 1:
            raise InvalidInput(
                f"LanewayTrainer: {self.accelerator.num_processes} processes train one model, and "
                "a job is of one process: start one process"
            )
        if self.accelerator.scaler is not None:
            raise InvalidInput(
                "LanewayTrainer: fp16=True scales the loss by a GradScaler, which Trainer steps in "
                "Python between iterations: pass bf16=True or neither"
            )
        if self.args.torch_compile:
            raise InvalidInput(
                "LanewayTrainer: torch_compile=True compiles the model, which the capture cannot "
                "look into: leave it out"
            )
        for callback in self.callback_handler.callbacks:
            if type(callback).on_pre_optimizer_step is not TrainerCallback.on_pre_optimizer_step:
                raise InvalidInput(
                    f"LanewayTrainer: the callback {type(callback).__name__} has "
                    "on_pre_optimizer_step, between backward and the optimizer, which are one "
                    "iteration of the job: leave it out, or do its work in training_step"
                )
