"""Inference: a model's forward pass as a graph of a job. The job is the inference's own, or that of
a training step, whose current weights the inference uses. inference() makes one."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from laneway.capture import given
from laneway.capture.capture import CapturedJobGraph, capture_inference, infer
from laneway.errors import InvalidInput
from laneway.graph.slots import HasSlots, OtherImage
from laneway.graph.target import Target
from laneway.jobs.calls import draws
from laneway.jobs.calls.graph_call import GraphCall, call_of
from laneway.jobs.calls.job import Future, Job, check_replay, create_job
from laneway.jobs.calls.owned_job import OwnedJob
from laneway.jobs.calls.weight_files import Paths, WeightFiles
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.forms import lazy_modules
from laneway.jobs.forms.conditions import Conditions
from laneway.jobs.forms.float_arguments import FloatArguments
from laneway.jobs.forms.preparation import Preparation
from laneway.jobs.forms.variants import Variants
from laneway.jobs.image import Image
from laneway.jobs.inference_options import MODES, InferenceOptions
from laneway.jobs.mirrors.mirror import Mirror, bring_up_to_date, check_sync, written_slots
from laneway.jobs.mirrors.mirrored_model import check_watchable
from laneway.jobs.not_pickled import NotPickled
from laneway.jobs.service import Service, default_service
from laneway.jobs.settable import Settable
from laneway.jobs.step import TrainStep
from laneway.jobs.verify.eager_copies import State
from laneway.jobs.verify.eager_run import EagerRun
from laneway.jobs.verify.verification import Check, Verification, verification_of
from laneway.jobs.watch.capture_gate import gate_of
from laneway.native.process import ProcessLock


class Inference(NotPickled, Settable):
    """Call an inference with inputs; it returns the model's outputs.

    The first call captures the model's forward pass without gradients, in evaluation mode unless
    the inference was made with mode="as_is". A call of another form (shapes, dtypes, other
    arguments, hooks, parts of the model, with "as_is" also train() or eval()) is captured again.
    An inference of a training step runs in the step's lane, between iterations, uses the weights of
    that moment, and keeps the step alive. An inference with a job of its own ends that job at
    close(), or when the inference and all its Futures are deleted. Thread-safe."""

    def __init__(
        self, model: torch.nn.Module, image: Image | None, options: InferenceOptions
    ) -> None:
        """`image` is the job to join; without one the inference has a job of its own."""
        self._model, self._joined, self._options = model, image, options
        service = options.service if image is None else image.service
        self.service = service if service is not None else default_service()
        self.name = options.name
        self._target = Target(self.service.kernels)
        weights = options.weights
        self._weights = None if weights is None else WeightFiles(model, weights)
        self._shares_random = draws.is_shared(options.random, self._target)
        self._random_state = torch.get_rng_state()  # of the job's own generator at first
        self._lock = ProcessLock()
        self._floats = FloatArguments()
        self._owned = OwnedJob("inference", options.scheduling)
        self._captured: HasSlots | None = None  # its slots are the slots of the job's state
        self.job: Job | None = None
        self._gate = gate_of(model) if image is None else gate_of(*image.models)
        self._variants = Variants(
            "inference",
            options.max_variants,
            Conditions([model], flags=options.mode == "as_is", inference=True),
            self._gate,
            self._capture,
            self._found,
        )
        self._mirror: Mirror | None = None  # of the job's model, which may be a step's
        self._writes = False  # whether some graph of the inference writes state
        self._verification = verification_of(options.verify, "inference", self._target, self._gate)
        self._unwatch: weakref.finalize | None = None

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Runs the model with the job's weights, waits, and returns its outputs."""
        mirror, check = self._before_call(), None
        try:
            if self._verification is not None and self._verification.is_due():
                check = self._begin_check(self._verification, inputs, kwargs)
            result = self._variants.run(inputs, kwargs)
        finally:
            if mirror is not None:
                mirror.after_call(self._writes)
        if check is not None:
            check.compare(result, inputs, kwargs)
        return result

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """Submits a call and returns a Future at once. The call works on copies of the inputs: when
        the model writes into an input, the caller's tensor does not change, and a warning says
        so."""
        mirror, check = self._before_call(), None
        try:
            if self._verification is not None and self._verification.is_due():
                check = self._begin_check(self._verification, inputs, kwargs)
            future = self._variants.submit(inputs, kwargs)
        finally:
            if mirror is not None:
                mirror.after_call(self._writes)
        if check is not None:
            check.compare_later(future, kwargs)
        return future

    def set(self, **changes: Any) -> None:
        """Changes what the policy is told of the inference's own job: see TrainStep.set. Raises
        InvalidInput for an inference of a step or attachment, whose job it is."""
        if self._joined is not None:
            raise InvalidInput(
                "this inference is a graph of another one's job, and has nothing of its own to "
                "set: call set() of the step or attachment that it was made of"
            )
        super().set(**changes)

    def prepare_many(self, calls: Sequence[Any], background: bool = False) -> Preparation:
        """Captures the inference for the inputs of many calls, each a tuple, or a dictionary of
        keywords, and runs none. With `background` it returns at once: each of the next calls
        captures one form while the service runs the call's iteration, and result() of the
        Preparation captures those that are left. Raises InvalidInput for more calls than
        max_variants."""
        return self._variants.prepare_many(calls, background)

    def close(self) -> None:
        """Ends the job, if it is the inference's own. May be called again; then it has no
        effect."""
        if not self._lock.is_here():
            return
        if self._unwatch is not None:
            self._unwatch()
        self._owned.close()
        self._variants.close()

    def __enter__(self) -> Inference:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _begin_check(self, verification: Verification, inputs: tuple, kwargs: Any) -> Check:
        """Runs the call that comes in eager execution."""
        self._variants.prepare(inputs, kwargs)
        call, captured, job = self._variants.current, self._captured, self.job
        assert call is not None and captured is not None and job is not None, "it was prepared"
        mode, closure = MODES[self._options.mode], self._options.closure

        def program(_: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
            return infer(self._model, closure, mode, args, kwargs)

        state = State([("model", self._model)])
        shares, functions = self._shares_random, [closure]
        run = EagerRun(
            job, captured.slots, call.captured, state, program, functions, shares, keeps_own=True
        )
        return verification.begin(run, inputs, kwargs)

    def _found(self) -> None:
        """The model may have other parts than before."""
        if self._mirror is not None:
            self._mirror.attach()
            self._mirror.give()

    def _before_call(self) -> Mirror | None:
        """Gives the job what the client wrote; the mirror that did it."""
        joined = self._joined
        if joined is not None and self.job is not None and joined.job is not self.job:
            with self._variants.held():
                self._leave_job()  # the step has begun another one
        mirror = self._mirror
        if mirror is None:
            return None
        try:
            mirror.before_call()
        except OtherImage:
            with self._variants.held():
                self._give_up_job()
            return None
        return mirror

    def _capture(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            self._owned.check_open(self.name)
            try:
                captured = self._captured_for(inputs, kwargs)
            except OtherImage:
                self._give_up_job()
                captured = self._captured_for(inputs, kwargs)
            self._writes = self._writes or bool(written_slots(captured.graph))
            if self._mirror is not None:
                self._mirror.add_graph(captured.graph)
            if self.job is not None:
                self.name = self.name or self.job.name
                return call_of(self.job, self.job.add_graph(captured.encode()), captured)
            self.job = self._offer(captured)
            self._captured, self.name = captured, self.job.name
            if self._weights is not None:
                self._weights.close()
            if self._follows():
                self._follow(captured, self.job)
            return call_of(self.job, 0, captured)

    def _captured_for(self, inputs: tuple, kwargs: dict[str, Any]) -> CapturedJobGraph:
        if self._joined is not None:
            self._captured, self.job = self._joined.ensure_job()
            self._mirror = self._joined.mirror
        if self.job is None:
            bring_up_to_date([self._model])
            if self._follows():
                check_watchable(self._model)

        def capture(floats: Sequence[int] = ()) -> CapturedJobGraph:
            return capture_inference(
                self._model,
                inputs,
                kwargs,
                slots_of=self._captured,
                train_mode=MODES[self._options.mode],
                name="inference",  # for all jobs, so that equal graphs have equal bytes
                closure=self._options.closure,
                target=self._target,
                shares_random=self._shares_random,
                floats=floats,
            )

        weights = self._weights
        in_place = contextlib.nullcontext() if weights is None else weights.in_place()
        with self._gate.capturing(), in_place:
            if self._captured is None and lazy_modules.has_lazy(self._model):
                self._initialise(capture)
            return self._floats.captured(inputs, kwargs, capture)

    def _give_up_job(self) -> None:
        """Ends the job, whose image the model has outgrown; the next call begins another one with
        the client's weights. Raises OtherImage where the job, or its weights, are not the
        client's."""
        with self._lock:
            if self._joined is not None or self._mirror is None or self._options.shared:
                raise
            if self._unwatch is not None:
                self._unwatch()
            self._leave_job()
            self._owned.give_up()

    def _leave_job(self) -> None:
        with self._lock:
            self._variants.forget()
            self._unwatch = self._mirror = self._captured = self.job = None
            self._writes = False

    def _follows(self) -> bool:
        """Whether the job follows the client's model."""
        return self._options.sync != "manual" and self._weights is None

    def _follow(self, captured: CapturedJobGraph, job: Job) -> None:
        self._mirror = Mirror([("model", self._model)], [], captured.slots, job, self._gate)
        self._mirror.add_graph(captured.graph)
        self.service.add_mirror(self._mirror)
        self._unwatch = weakref.finalize(self, self._mirror.release)
        self._unwatch.atexit = False

    def _initialise(self, capture: Callable[[], CapturedJobGraph]) -> None:
        before = draws.default_state() if self._shares_random else self._random_state
        self._random_state = lazy_modules.initialise(self._model, capture, before)
        if self._shares_random:
            draws.set_default_state(self._random_state)

    def _offer(self, captured: CapturedJobGraph) -> Job:
        options = self._options

        def make(told: Scheduling) -> Job:
            return create_job(
                self.service,
                self.name,
                captured.slots,
                captured.encode(),
                self._random_state,
                job_class="inference",
                scheduling=told,
                shared=options.shared,
                replay=options.replay,
                weights=self._weights,
            )

        return self._owned.place(make, options.admission_timeout)


def inference(
    model_or_step: torch.nn.Module | TrainStep,
    service: Service | None = None,
    name: str | None = None,
    priority: int = 0,
    weight: float = 1.0,
    total_iterations: int | None = None,
    deadline: float | None = None,
    job_class: str | None = None,
    admission_timeout: float | None = None,
    closure: Callable[..., Any] | None = None,
    max_variants: int = 8,
    shared: bool = False,
    replay: str = "auto",
    random: str | None = None,
    sync: str = "on_read",
    mode: str = "eval",
    model: torch.nn.Module | None = None,
    weights: Paths | None = None,
    verify: bool | int | None = None,
    iteration_s: float | None = None,
) -> Inference:
    """Makes an inference, to be called with inputs. With a model, the inference has a job of its
    own, with the model's weights: what is written to the model later is used by the next call, or
    with sync="manual" is not. With a step, the inference is one more graph of
    the step's job: it runs in the same lane and uses the step's current weights.

    `mode`: "eval": the model runs in evaluation mode, whatever mode it is in. "as_is": each module
    runs in the mode that train() or eval() gave it before the call: dropout of a module in training
    mode draws, and batch normalisation in training mode moves the job's statistics, as in eager.

    `weights`: a file of safetensors, or a list of them, in which the service finds the tensors of a
    model that was built under torch.device("meta"): no process of the client ever holds them. The
    model stays without memory, so nothing of it is kept up to date. save_weights() writes files
    with checksums. A file that changes, is cut short or damaged before its bytes are in the job's
    memory raises JobFailed.

    `closure(model, *inputs)` replaces the call model(*inputs), for example by an evaluation with
    losses and metrics. `max_variants` is how many forms of call (shapes, dtypes, other arguments)
    stay captured at a time. Of a step with a list of models, `model` is the one to call; without
    it, a closure gets the list. `service`, `name`, `priority`, `weight`, `total_iterations` (of
    calls), `deadline`, `iteration_s`, `job_class` (None: "inference"), `admission_timeout`,
    `shared`, `replay`, `random` and `sync` are those of train_step, for a job of the inference's
    own; an inference of a step ignores all of them but `name` and `random`. `verify` and errors are
    train_step's.

    Requires: a step that is given has a job, that is, it was called or prepared."""
    check_replay(replay)
    draws.check_random(random)
    check_sync(sync)
    options = InferenceOptions(
        service=service, name=name, closure=closure, admission_timeout=admission_timeout,
        scheduling=Scheduling(priority, weight, total_iterations, deadline, job_class, iteration_s),
        max_variants=max_variants, shared=shared, replay=replay, random=random, sync=sync,
        mode=mode, weights=weights, verify=verify,
    )  # fmt: skip
    if isinstance(model_or_step, TrainStep):
        if weights is not None:
            raise InvalidInput("weights= are of a job of the inference's own; a step has its own")
        closure = _closure_for(model_or_step, model, closure)
        options = dataclasses.replace(options, closure=closure)
        return Inference(model_or_step.root, model_or_step, options)
    if model is not None:
        raise InvalidInput("model= chooses among the models of a step; there is no step here")
    return Inference(model_or_step, None, options)


def _closure_for(
    step: TrainStep, model: torch.nn.Module | None, closure: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """What an inference of the step calls with the step's root and its inputs."""
    if model is None:
        if not given.is_list(step.model):
            return closure
        if closure is None:
            raise InvalidInput(
                f"the step has {len(step.models)} models, and an inference calls one: "
                "choose it with inference(step, model=…), or give a closure, which gets the list"
            )
        return lambda _, *inputs, **kwargs: closure(list(step.models), *inputs, **kwargs)
    if not any(model is own for own in step.models):
        raise InvalidInput(f"model= is a {type(model).__name__} that the step was not made with")
    if closure is None:
        return lambda _, *inputs, **kwargs: model(*inputs, **kwargs)
    return lambda _, *inputs, **kwargs: closure(model, *inputs, **kwargs)
