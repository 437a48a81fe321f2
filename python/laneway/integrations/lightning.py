"""LanewayStrategy: Lightning's automatic optimization with its iterations run in Laneway. One line
changes, the import of Trainer, or its strategy:

    from laneway.integrations.lightning import LanewayTrainer as Trainer
    trainer = lightning.Trainer(strategy=LanewayStrategy(), ...)

The arguments of the strategy are what laneway.train_step takes besides loss function and closure:
`service`, `name`, `priority`, ... Without `service` a service embedded in this process runs the
iterations.

Equal to Lightning on the CPU, bit for bit: what self.log and self.log_dict log, weights, metrics of
validation and test, and checkpoints, which a Trainer with or without the strategy goes on from.
Among what works as before: gradient_clip_val, configure_gradient_clipping, accumulate_grad_batches,
schedulers, precision="bf16-mixed", dropout, and logging in on_before_optimizer_step.

What differs:

- training_step and the module's hooks around backward and the optimizer run in Python only when a
  form of batch is captured. Their calls of self.log are repeated after every iteration, with that
  iteration's values. What they decide by must be in the batch: batch_idx, current_epoch and
  global_step, which change from call to call, are refused there when they are used.
- Refused: manual optimization (decorate the function of one iteration with laneway.step); callbacks
  with on_before_backward, on_after_backward or on_before_optimizer_step; metrics with a state in
  training_step (update them in on_train_batch_end); lightning's grad_norm, which makes a tensor of
  Python numbers (log torch.nn.utils.get_total_norm); a training_step that returns None or takes
  dataloader_iter; loss scaling (precision="16-mixed"); other accelerators than "cpu", for the
  service has the device.
- Validation, test and prediction run in the client's process, with the current weights.
- The package is `lightning`; `pytorch_lightning` has a Trainer of its own, which takes no strategy
  of `lightning`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch.utils import _pytree as pytree
from torchmetrics import Metric

from laneway.errors import CaptureError, InvalidInput
from laneway.jobs.step import TrainStep
from laneway.jobs.training import train_step

# The hooks of a callback that would run inside an iteration.
_INSIDE = ("on_before_backward", "on_after_backward", "on_before_optimizer_step")


class LanewayStrategy(SingleDeviceStrategy):
    """Runs training_step, backward, clipping and the optimizer as one iteration of a job, which
    begins with the first batch and ends with the training. Then module and optimizer have the job's
    state, also after an exception, unless the service is gone."""

    strategy_name = "laneway"

    def __init__(self, **options: Any) -> None:
        for name in ("closure", "loss_fn", "keep_gradients", "sync"):
            if name in options:
                raise InvalidInput(f"LanewayStrategy: {name} is set by the strategy itself")
        super().__init__("cpu")
        self._options = options
        self._step: TrainStep | None = None
        self._stepping = False  # inside optimizer_step
        self._ran = False  # an iteration ran inside optimizer_step
        self._logged: list[list[_Logged]] = []  # of each capture

    def setup_environment(self) -> None:
        if not isinstance(self.accelerator, CPUAccelerator):
            raise InvalidInput(
                f"LanewayStrategy: the Trainer's accelerator is {type(self.accelerator).__name__}, "
                "and the client's module must be on the CPU (the service has the device): pass "
                'Trainer(accelerator="cpu")'
            )
        super().setup_environment()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        module, trainer = self.lightning_module, self.lightning_module.trainer
        accumulated = trainer.accumulate_grad_batches
        if self._step is None:
            self._step = self._new_step()
        # Weight averaging has an epoch of forward passes alone, for normalisations.
        trains = not trainer.fit_loop._skip_backward
        first = trains and trainer.fit_loop.epoch_loop.batch_idx % accumulated == 0
        batch, last = [*args, *kwargs.values()][0], trains and self._stepping
        output, values, number = self._step(batch, trains, first, last, accumulated)
        self._ran = True
        for logged, value in zip(self._logged[number], values):
            logged.repeat(module, value)
        return output

    def backward(self, closure_loss: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """The iteration had its backward."""
        return closure_loss

    def optimizer_step(self, optimizer: Any, closure: Any, model: Any = None, **_: Any) -> Any:
        self._stepping, self._ran = True, False
        try:
            result = closure()
        finally:
            self._stepping = False
        if not self._ran:
            raise InvalidInput(
                "LanewayStrategy: optimizer_step of the module calls optimizer.step() without its "
                "closure, and forward, backward and the optimizer are one iteration of the job: "
                "call optimizer.step(closure=optimizer_closure)"
            )
        return result

    def on_train_end(self) -> None:
        self._end()

    def teardown(self) -> None:
        self._end()
        super().teardown()

    def _end(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            self._logged = []
            step.close()

    def _new_step(self) -> TrainStep:
        self._check()
        (optimizer,) = self.optimizers
        trainer = self.lightning_module.trainer
        accumulates = trainer.accumulate_grad_batches > 1 or any(
            isinstance(each, GradientAccumulationScheduler) for each in trainer.callbacks
        )
        return train_step(
            self.lightning_module,
            None,
            optimizer,
            closure=self._iteration,
            keep_gradients=True if accumulates else None,
            **self._options,
        )

    def _iteration(
        self,
        module: Any,
        _optimizer: Any,
        batch: Any,
        trains: bool,
        first: bool,
        last: bool,
        accumulated: int,
    ) -> tuple[Any, list[Any], int]:
        """What Lightning does with one batch, in its order."""
        (optimizer,) = self.optimizers
        takes_number = is_param_in_hook_signature(module.training_step, "batch_idx", min_args=2)
        args = (batch, _Changing("batch_idx")) if takes_number else (batch,)
        with _at_capture(module) as logged:
            output = super().training_step(*args)
            loss = ClosureResult.from_training_step_output(output, accumulated).closure_loss
            if loss is None:
                raise CaptureError(
                    "training_step returns None, and which batches to skip would be decided at "
                    "capture only",
                    remedy="return the loss times zero, or leave such batches out of the data",
                )
            if first:
                numbers = _Changing("epoch"), _Changing("batch_idx")
                module.optimizer_zero_grad(*numbers, optimizer)
            if trains:
                super().backward(loss, optimizer)
            if last:
                self.precision_plugin._after_closure(module, optimizer)
                optimizer.step()
        calls, values = [each for each, _ in logged], [value for _, value in logged]
        if calls not in self._logged:
            self._logged.append(calls)
        return pytree.tree_map(_detached, output), values, self._logged.index(calls)

    def _check(self) -> None:
        """Raises InvalidInput for what a captured iteration cannot do as Lightning does it."""
        module = self.lightning_module
        if is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True):
            raise InvalidInput(
                "LanewayStrategy: training_step takes dataloader_iter and reads batches itself, "
                "which would happen at capture only: let it take batch"
            )
        if getattr(self.precision_plugin, "scaler", None) is not None:
            raise InvalidInput(
                "LanewayStrategy: this precision scales the loss by a GradScaler, which Lightning "
                'steps in Python: pass precision="bf16-mixed" or "32-true"'
            )
        for callback in module.trainer.callbacks:
            for hook in _INSIDE:
                if getattr(type(callback), hook) is not getattr(Callback, hook):
                    raise InvalidInput(
                        f"LanewayStrategy: the callback {type(callback).__name__} has {hook}, which"
                        " would run inside an iteration of the job: leave it out, or move it into "
                        "the hook of the module, which may log there"
                    )

    def setup(self, trainer: Any) -> None:
        module = trainer.lightning_module
        if trainer.training and not module.automatic_optimization:
            raise InvalidInput(
                f"LanewayStrategy: {type(module).__name__} has automatic_optimization = False: "
                "decorate the function of one iteration with laneway.step, without the strategy"
            )
        super().setup(trainer)


class LanewayTrainer(Trainer):
    """A Trainer on the CPU whose strategy is LanewayStrategy(), unless another one is given."""

    def __init__(self, *, accelerator: Any = "cpu", strategy: Any = None, **arguments: Any) -> None:
        strategy = LanewayStrategy() if strategy is None else strategy
        super().__init__(accelerator=accelerator, strategy=strategy, **arguments)


@dataclasses.dataclass(frozen=True)
class _Logged:
    """One call of self.log in an iteration, without its value."""

    hook: str
    name: str
    options: dict[str, Any]

    def repeat(self, module: LightningModule, value: Any) -> None:
        before, module._current_fx_name = module._current_fx_name, self.hook
        try:
            module.log(self.name, value, **self.options)
        finally:
            module._current_fx_name = before


@contextlib.contextmanager
def _at_capture(module: LightningModule) -> Iterator[list[tuple[_Logged, Any]]]:
    """Inside, the module's log() adds to the list that this gives, its metrics refuse updates, and
    its trainer does not tell what changes from call to call."""
    logged: list[tuple[_Logged, Any]] = []

    def log(name: str, value: Any, **options: Any) -> None:
        if not isinstance(value, (torch.Tensor, int, float, torch.SymFloat, torch.SymInt)):
            raise _has_state(value)
        logged.append((_Logged(module._current_fx_name, name, options), _detached(value)))

    trainer = module.trainer
    view = _TrainerAtCapture(trainer)
    metrics = [(m, m.__dict__["update"]) for m in module.modules() if isinstance(m, Metric)]
    module.trainer, module.log = view, log
    for metric, _ in metrics:
        metric.__dict__["forward"] = metric.__dict__["update"] = _refusing(metric)
    try:
        yield logged
    finally:
        for metric, update in metrics:
            del metric.__dict__["forward"]
            metric.__dict__["update"] = update
        del module.log
        module.trainer = trainer


class _TrainerAtCapture:
    """A trainer, except for the numbers that change from call to call."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        if name in ("current_epoch", "global_step"):
            raise _changes(name)
        return getattr(self._trainer, name)


class _Changing:
    """Stands for a number that changes from call to call, and raises when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any) -> Any:
        raise _changes(self._name)

    __index__ = __int__ = __float__ = __bool__ = __str__ = __format__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __repr__ = __divmod__ = _refuse


def _refusing(metric: Metric) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise _has_state(metric)

    return refuse


def _has_state(metric: Any) -> CaptureError:
    return CaptureError(
        f"training_step updates or logs a {type(metric).__name__}, whose state would change at "
        "capture only",
        remedy="return what it needs from training_step, and update and log it in "
        "on_train_batch_end",
    )


def _changes(name: str) -> CaptureError:
    return CaptureError(
        f"training_step uses {name}, which changes from call to call and would be a constant of "
        "the capture",
        remedy="decide by it in on_train_batch_start, or keep a count in a buffer",
    )


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value
