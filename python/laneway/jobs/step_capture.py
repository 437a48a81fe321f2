"""StepCapture: the captures of one step, made anew or taken from a step that it is like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given, optimizers
from laneway.capture.capture import CapturedJobGraph, capture_inference, capture_train_step
from laneway.capture.default_step import default_step
from laneway.capture.kept_gradients import NewGradient
from laneway.capture.recorder import StaleGradient
from laneway.errors import CaptureError, InvalidInput
from laneway.graph.slots import OtherImage, Slot
from laneway.graph.target import Target
from laneway.jobs.calls import draws
from laneway.jobs.calls.client_state import ClientState
from laneway.jobs.forms import lazy_modules
from laneway.jobs.forms.alike import Alike, Kept, bound
from laneway.jobs.forms.code_around import reads_gradients
from laneway.jobs.forms.float_arguments import FloatArguments
from laneway.jobs.forms.likeness import Likeness, TooMuch
from laneway.jobs.step_options import StepOptions

# The same for all jobs: what the graph's bytes have of names keeps a service from seeing that two
# graphs are equal.
_GRAPH_NAME = "train"


class StepCapture:
    """One thread at a time, with the gates of the step's models held."""

    def __init__(
        self,
        root: torch.nn.Module,
        loss_fn: Callable[..., Any] | None,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: Optimizer | Sequence[Optimizer] | None,
        options: StepOptions,
        target: Target,
        shares_random: bool,
        before: ClientState,
    ) -> None:
        """`like`, of the options, is captured for the same kernels, else InvalidInput."""
        self._root, self._loss_fn, self._model = root, loss_fn, model
        self._optimizer, self._options, self._target = optimizer, options, target
        self._shares_random, self._before = shares_random, before
        self.modules = [("model", root)]
        if isinstance(loss_fn, torch.nn.Module):
            self.modules.append(("loss", loss_fn))
        self._is_like = options.like is not None
        self.alike: Alike = options.like if options.like is not None else Alike()
        # Further graphs are looked up too. A plain step captures them: what it dropped for lack of
        # room it has dropped.
        self._looks = self._is_like
        self._floats = FloatArguments()
        self._first: Kept | None = None  # the capture of the job's first graph
        self.taken = 0  # graphs that were another step's
        self.keeps_all = False  # gradients, for the user's code around the step

    def first(self, inputs: tuple, kwargs: dict[str, Any]) -> tuple[CapturedJobGraph, bytes]:
        """The first graph of the step's job, and its bytes. Raises InvalidInput when the step was
        made like another and is not."""
        self._initialise(inputs, kwargs)
        options = self._options
        if options.keep_gradients is None and options.sync != "manual" and self._optimizer:
            self.keeps_all = self.keeps_all or reads_gradients(options.closure)
        likeness = self._likeness()
        kept = self._found(likeness, None, inputs, kwargs)
        if kept is None and self._is_like and likeness is not None:
            self.alike.check(likeness)
        if kept is not None:
            captured, encoded = self._bound(kept), kept.encoded
            self.taken += 1
        else:
            captured = self._captured(inputs, kwargs, None)
            encoded = captured.encode()
            kept = self._keep(likeness, captured, encoded, None)
        self._first = kept
        return captured, encoded

    def begin_anew(self) -> None:
        """The next first graph is that of another job: the model is not as it was."""
        self._first, self._is_like, self._looks = None, False, False

    def further(
        self, inputs: tuple, kwargs: dict[str, Any], job: CapturedJobGraph
    ) -> tuple[CapturedJobGraph, bytes]:
        """A further graph of the job whose first one `job` is, and its bytes."""
        likeness = self._likeness() if self._first is not None else None
        kept = self._found(likeness, self._first, inputs, kwargs) if self._looks else None
        if kept is not None:
            self.taken += 1
            return self._bound(kept, job.slots), kept.encoded
        try:
            captured = self._captured(inputs, kwargs, job)
        except StaleGradient as error:
            raise self._explained(error) from error
        except NewGradient as error:
            if self.keeps_all:
                raise OtherImage(error.message, remedy=error.remedy) from error
            raise
        encoded = captured.encode()
        self._keep(likeness, captured, encoded, self._first)
        return captured, encoded

    def _explained(self, error: StaleGradient) -> CaptureError:
        """The error itself, or what it comes of."""
        own = {id(p) for _, module in self.modules for p in module.parameters()}
        every = [p for o in given.all_of(self._optimizer) for p in optimizers.parameters_of(o)]
        others = sum(id(parameter) not in own for parameter in every)
        if others == 0:
            return error
        return CaptureError(
            f"{others} of the {len(every)} parameters of the optimizers are none of the model's: "
            "parameters of the model were replaced (by load_state_dict(assign=True), say), and the "
            "new ones get gradients that nobody uses or clears",
            remedy="load states without assign=True, or make a new optimizer over "
            "model.parameters(), and a new step",
        )

    def ahead(self, inputs: tuple, kwargs: dict[str, Any]) -> None:
        """Captures for a call to come, of a step without a job."""
        if self._first is None:
            self.first(inputs, kwargs)
            if self._first is None:
                raise CaptureError(
                    f"the capture of this step cannot be kept without a job: {self.alike.refused}",
                    remedy="prepare() it, which offers the job",
                )
            return
        self._looks = True
        likeness = self._likeness()
        if self._found(likeness, None, inputs, kwargs) is None:
            captured = self._bound(self._first)
            self.further(inputs, kwargs, captured)

    def program(self) -> Callable[[list[Optimizer], tuple, dict[str, Any]], Any]:
        """An iteration as eager execution runs it, with these optimizers in place of the step's."""
        step = self._closure() or default_step(self._loss_fn)

        def run(copies: list[Optimizer], args: tuple, kwargs: dict[str, Any]) -> Any:
            return step(self._root, given.in_form_of(self._optimizer, copies), *args, **kwargs)

        return run

    def _bound(self, kept: Kept, slots: list[Slot] | None = None) -> CapturedJobGraph:
        functions = [self._loss_fn, self._closure()]
        return bound(kept, self.modules, self._optimizer, functions, slots)

    def _found(
        self,
        likeness: Likeness | None,
        first: Kept | None,
        inputs: tuple,
        kwargs: dict[str, Any],
    ) -> Kept | None:
        return None if likeness is None else self.alike.find(likeness, first, inputs, kwargs)

    def _keep(
        self,
        likeness: Likeness | None,
        captured: CapturedJobGraph,
        encoded: bytes,
        first: Kept | None,
    ) -> Kept | None:
        if likeness is None:
            return None
        return self.alike.add(likeness, captured, encoded, self.modules, first)

    def _likeness(self) -> Likeness | None:
        """None when there is too much to compare."""
        options = self._options
        others = [
            ("the loss function", self._loss_fn),
            ("the closure", options.closure),
            ("the form of model=", _form(self._model)),
            ("the form of optimizer=", _form(self._optimizer)),
            ("keep_gradients", "all" if self.keeps_all else options.keep_gradients),
            ("the kernels of the service", self._target),
            ("random", self._shares_random),
        ]
        try:
            return Likeness(self.modules, given.all_of(self._optimizer), others)
        except TooMuch as much:
            if self._is_like and self._first is None:
                raise InvalidInput(
                    f"this step cannot be compared with the one that it was made like: {much}; "
                    "make it without like="
                ) from None
            return self.alike.refuse(f"of that one, {much}")

    def _captured(
        self, inputs: tuple, kwargs: dict[str, Any], slots_of: CapturedJobGraph | None
    ) -> CapturedJobGraph:
        def capture(floats: list[int]) -> CapturedJobGraph:
            return capture_train_step(
                self._root,
                self._loss_fn,
                self._optimizer,
                inputs,
                kwargs,
                self._closure(),
                _GRAPH_NAME,
                slots_of,
                "all" if self.keeps_all else self._options.keep_gradients,
                self._target,
                self._shares_random,
                floats,
            )

        return self._floats.captured(inputs, kwargs, capture)

    def _closure(self) -> Callable[..., Any] | None:
        """The closure, as the capture calls it: with the root."""
        closure = self._options.closure
        if closure is None or not given.is_list(self._model):
            return closure
        models = given.all_of(self._model)
        return lambda _, optimizer, *inputs, **kwargs: closure(models, optimizer, *inputs, **kwargs)

    def _initialise(self, inputs: tuple, kwargs: dict[str, Any]) -> None:
        """Gives lazy modules their sizes and first values, as their first call would."""
        if not lazy_modules.has_lazy(self._root):
            return
        if self._options.closure is not None:
            raise CaptureError("the model has lazy modules", remedy=lazy_modules.REMEDY)
        forward = inputs[:-1] if self._loss_fn is not None else inputs
        before = draws.default_state() if self._shares_random else self._before.random
        self._before.random = lazy_modules.initialise(
            self._root,
            lambda: capture_inference(
                self._root, forward, kwargs, train_mode=True, target=self._target
            ),
            before,
        )
        if self._shares_random:
            draws.set_default_state(self._before.random)


def _form(of: Any) -> str:
    return f"a list of {len(of)}" if given.is_list(of) else "one" if of is not None else "none"
