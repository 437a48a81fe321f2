"""TrainStep: one training step of a user's model as a job of a service. train_step() and step() of
training.py make one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import or_
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture import given, loss_scaling
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.kept_gradients import begun
from laneway.errors import InvalidInput
from laneway.graph.slots import OtherImage, Path
from laneway.graph.target import Target
from laneway.jobs.calls import draws
from laneway.jobs.calls.client_state import ClientState
from laneway.jobs.calls.graph_call import UNDER_WAY, GraphCall, call_of
from laneway.jobs.calls.job import Future, Job, create_job
from laneway.jobs.calls.job_state import release_created
from laneway.jobs.calls.owned_job import OwnedJob
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.files.progress import Progress
from laneway.jobs.files.step_files import StepFiles
from laneway.jobs.forms.alike import Alike
from laneway.jobs.forms.conditions import Conditions
from laneway.jobs.forms.preparation import Preparation
from laneway.jobs.forms.variants import Variants
from laneway.jobs.mirrors.mirror import Mirror, bring_up_to_date
from laneway.jobs.not_pickled import NotPickled
from laneway.jobs.service import default_service
from laneway.jobs.settable import Settable
from laneway.jobs.step_capture import StepCapture
from laneway.jobs.step_options import StepOptions
from laneway.jobs.step_state import StepState
from laneway.jobs.verify.eager_copies import State
from laneway.jobs.verify.eager_run import EagerRun
from laneway.jobs.verify.verification import Check, Verification, verification_of
from laneway.jobs.watch.capture_gate import gate_of
from laneway.jobs.watch.references import References
from laneway.jobs.watch.stale_weights import StaleWeights
from laneway.jobs.watch.watched import quietly
from laneway.native.process import ProcessLock


class TrainStep(NotPickled, Settable, StepState, StepFiles):
    """Call a step with a batch: the service runs one iteration of training and returns the loss.

    The first call captures the step and submits the job. From then on parameters, buffers and
    optimizer state live in the service's pool. Whoever reads the client's `model` or `optimizer`
    finds them up to date, and what is written to them is used by the next call (see train_step's
    `sync`). A call of another form (shapes, dtypes, other arguments, hyperparameters, train() or
    eval(), hooks, parts of the model) is captured again and uses the same state. Random operators
    draw from the generators that eager would draw from, and move them (see train_step's `random`).
    Thread-safe; iterations run in the order of the calls.
    """

    def __init__(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        loss_fn: Callable[..., Any] | None,
        optimizer: Optimizer | Sequence[Optimizer] | None,
        options: StepOptions,
    ) -> None:
        """`model` and `optimizer` are one or a list of several each, and stay so in states; the
        state of `optimizer` None is None."""
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.models, self.optimizers = given.all_of(model), given.all_of(optimizer)
        # What is captured: several models are one, whose parameters are named "0.weight".
        self.root = torch.nn.ModuleList(model) if given.is_list(model) else model
        self.service = options.service if options.service is not None else default_service()
        self.name = options.name
        self._options = options
        self._target = Target(self.service.kernels)
        self._shares_random = draws.is_shared(options.random, self._target)
        self._before = ClientState(model, optimizer, self._shares_random)
        self._lock = ProcessLock()
        self._owned = OwnedJob("step", options.scheduling)
        self.captured: CapturedJobGraph | None = None  # the job's first graph
        self.job: Job | None = None
        self._modules = [m for m in (self.root, loss_fn) if isinstance(m, torch.nn.Module)]
        self._references = References(self._modules, self.optimizers)
        self._conditions = Conditions(self._modules, self.optimizers)
        self._gate = gate_of(*self.models)
        self._captures = StepCapture(
            self.root,
            loss_fn,
            model,
            optimizer,
            options,
            self._target,
            self._shares_random,
            self._before,
        )
        self._variants = Variants(
            "step", options.max_variants, self._conditions, self._gate, self._capture, self._found
        )
        # The parts of the state that are no bytes, after the last call or load_state_dict().
        self._stepped = [False] * len(self.optimizers)
        self._gradients: set[Path] = set()
        self.mirror: Mirror | None = None  # of a job whose model is synchronised on read
        self._watches: list[StaleWeights] = []  # of a job whose model is not
        self._unwatch: weakref.finalize | None = None
        self._progress = Progress()  # of StepFiles
        self._references.settle()
        self._verification = verification_of(options.verify, "step", self._target, self._gate)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Runs one iteration, waits, and returns the loss, or (loss, auxiliary outputs…)."""
        mirror, check = self._before_call(), None
        try:
            if self._verification is not None and self._verification.is_due():
                check = self._begin_check(self._verification, inputs, kwargs)
            result = self._variants.run(inputs, kwargs)
        except KeyboardInterrupt as interrupt:
            if hasattr(interrupt, UNDER_WAY):
                self._progress.add()
            raise
        finally:
            self._note_call(mirror)
        if not self.optimizers and self.mirror is not None:
            self.mirror.give_gradients(self._gradients)
        self._progress.note(self.save)
        if check is not None:
            check.compare(result, inputs, kwargs)
        return result

    def submit(self, *inputs: Any, **kwargs: Any) -> Future:
        """Submits one iteration and returns a Future at once (`result(timeout=None)`, `done()`,
        awaitable). The iteration works on copies of the inputs: when the step writes into an input,
        the caller's tensor does not change, and a warning says so."""
        mirror, check = self._before_call(), None
        try:
            if self._verification is not None and self._verification.is_due():
                check = self._begin_check(self._verification, inputs, kwargs)
            future = self._variants.submit(inputs, kwargs)
        finally:
            self._note_call(mirror)
        self._progress.note(self.save)
        if check is not None:
            check.compare_later(future, kwargs)
        return future

    def prepare(self, *inputs: Any, **kwargs: Any) -> None:
        """Captures the step for inputs of this form, submits the job and waits for its memory. Runs
        no iteration."""
        self._variants.prepare(inputs, kwargs)

    def capture(self, *inputs: Any, **kwargs: Any) -> None:
        """Captures the step for inputs of this form and offers no job: the service hears of nothing
        and holds no memory. The call that comes uses the graph, with the weights of then, unless
        something that the graph has as a constant has changed. Once the step has a job it is
        prepare()."""
        if self.job is not None:
            return self.prepare(*inputs, **kwargs)
        with self._lock, quietly():
            self._check_open()
            bring_up_to_date(self._modules)
            with self._gate.capturing():
                self._captures.ahead(inputs, kwargs)

    def prepare_many(self, calls: Sequence[Any], background: bool = False) -> Preparation:
        """Captures the step for the inputs of many calls, each a tuple, or a dictionary of
        keywords, and runs none. With `background` it returns at once: each of the next calls
        captures one form while the service runs the call's iteration, and result() of the
        Preparation captures those that are left. Raises InvalidInput for more calls than
        max_variants."""
        return self._variants.prepare_many(calls, background)

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, its bytes and, per graph, the measured memory and in "shared"
        what equal graphs of other jobs had of it; in "captures", how many graphs the step needed,
        keeps, and dropped for lack of room; in "captures_taken", how many were those of a step that
        it is like; in "guards", how many reads of Python state each kept graph compares before a
        call; in "references", the classes of objects that keep parameters of the model, which is
        brought up to date after each iteration for them. `with_tapes` adds the allocation trace of
        each graph."""
        with self._lock:
            self._check_open()
            if self.job is None:
                raise InvalidInput("the step has not been called yet: there is no job to report")
            captures = {"captures": self._variants.counts(), "captures_taken": self._captures.taken}
            uses = {"guards": self._variants.guards(), "references": self._references.holders}
            return self.job.report(with_tapes) | captures | uses

    def close(self) -> None:
        """Ends the job and frees its state, after the client's model and optimizer have been
        brought up to date (with sync="manual" weights that were not copied are lost). Calls of
        other threads return their result or raise an error. May be called again; then it has no
        effect."""
        if not self._lock.is_here():
            return
        if self.mirror is not None:
            self.mirror.release()
        self._owned.close()
        # Without the lock: a capture takes its own behind that of the variants.
        self._variants.close()
        with self._lock:
            if self._unwatch is not None:
                self._unwatch()

    @property
    def alike(self) -> Alike:
        """The captures that this step shares with those that are made like it; for the package
        itself."""
        return self._captures.alike

    def __enter__(self) -> TrainStep:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ensure_job(self) -> tuple[CapturedJobGraph, Job]:
        """The capture and the job, for the package itself. Raises InvalidInput before the first
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

    def _before_call(self) -> Mirror | None:
        """Gives the job what the client wrote; the mirror that did it."""
        mirror = self.mirror
        if mirror is None:
            return None
        try:
            mirror.before_call()
        except OtherImage:
            with self._variants.held():
                self._give_up_job()
            return None
        return mirror

    def _note_call(self, told: Mirror | None) -> None:
        """Notes what the graph that ran last changed in the state; `told` is the mirror that knew
        of the call before it began."""
        call = self._variants.current
        if call is not None and not all(self._stepped):
            self._stepped = [*map(or_, self._stepped, call.captured.stepped)]
        if call is not None and call.captured.modes:
            for module, training in call.captured.modes:
                module.training = training
        if call is not None and call.captured.gradients:
            self._gradients = {path for path, has in call.captured.gradients.items() if has}
            if self._captures.keeps_all and self.mirror is not None:
                self.mirror.left_gradients(self._gradients)
        for watch in self._watches:
            watch.current = False
        if self.mirror is not None:
            if self.mirror.stepped != self._stepped:
                self.mirror.stepped = [*map(or_, self.mirror.stepped, self._stepped)]
            if told is not self.mirror:  # the call made the mirror
                self.mirror.before_call()
            self.mirror.after_call()
            if self._references.holders:
                self.mirror.touched()

    def _begin_check(self, verification: Verification, inputs: tuple, kwargs: Any) -> Check:
        """Runs the iteration that comes in eager execution."""
        self._variants.prepare(inputs, kwargs)
        call, (captured, job) = self._variants.current, self.ensure_job()
        assert call is not None, "it was prepared"
        if self.mirror is not None:
            self._stepped = self.mirror.stepped
            if not self.optimizers or self._captures.keeps_all:
                self._gradients = self.mirror.present
        layouts = zip(self.optimizers, captured.optimizer_layouts, self._stepped)
        optimizers = [
            (optimizer, given.path_of(self.optimizer, "optimizer", number), layout, stepped)
            for number, (optimizer, layout, stepped) in enumerate(layouts)
        ]
        state = State(self._captures.modules, optimizers, frozenset(self._gradients))
        program, functions = self._captures.program(), [self.loss_fn, self._options.closure]
        run = EagerRun(
            job, captured.slots, call.captured, state, program, functions, self._shares_random
        )
        return verification.begin(run, inputs, kwargs)

    def _found(self) -> None:
        """The model may have other parts than before."""
        if self.mirror is not None:
            self.mirror.attach()
            self.mirror.give()

    def _capture(self, inputs: tuple, kwargs: dict[str, Any]) -> GraphCall:
        with self._lock:
            self._check_open()
            if self.job is not None and self.captured is not None:
                try:
                    return self._capture_further(self.job, self.captured, inputs, kwargs)
                except OtherImage:
                    self._give_up_job()
            bring_up_to_date(self._modules)
            self._references.look()
            self._references.done()
            with self._gate.capturing():
                captured, encoded = self._captures.first(inputs, kwargs)
            if captured.scaler is not None:
                self._conditions.add(*captured.scaler.attributes())
            if self._before.scaler:
                loss_scaling.known(captured.scaler).begin_from(captured.slots, self._before.scaler)
            self.job = self._offer(captured, encoded)
            self.captured, self.name = captured, self.job.name
            self._gradients = begun(captured.gradients, captured.slots)
            release_created(captured.slots)
            # Schedulers warn when the optimizer has not stepped before them; they read this.
            for optimizer in self.optimizers:
                optimizer._opt_called = True
            self._follow(captured, self.job)
            return call_of(self.job, 0, captured, self.optimizers)

    def _capture_further(
        self, job: Job, first: CapturedJobGraph, inputs: tuple, kwargs: dict[str, Any]
    ) -> GraphCall:
        with self._gate.capturing():
            further, encoded = self._captures.further(inputs, kwargs, first)
        if self.mirror is not None:
            self.mirror.add_graph(further.graph)
        return call_of(job, job.add_graph(encoded), further, self.optimizers)

    def _give_up_job(self) -> None:
        """Ends the job, whose image the model or the optimizer has outgrown. Its state is the
        client's from here on, and the next call begins another job with it. Raises OtherImage where
        the client's model does not follow the job, or others may have joined it."""
        with self._lock:
            if self._options.shared or self.mirror is None:
                raise
            self._stepped = self.mirror.stepped
            state = self._state().read(self._stepped, self._gradients)
            self._before.take_over(state, self.captured)
            if self._unwatch is not None:
                self._unwatch()  # the mirror brings the client up to date
            self._unwatch = self.mirror = None
            self._variants.forget()
            self._captures.begin_anew()
            self._owned.give_up()
            self.job = self.captured = None

    def _follow(self, captured: CapturedJobGraph, job: Job) -> None:
        """From here on the client's model is brought up to date, or warned of."""
        if self._options.sync == "manual":
            self._watches = watches = [StaleWeights(model, job.name) for model in self.models]
            self._unwatch = weakref.finalize(self, lambda: [watch.remove() for watch in watches])
        else:
            roots = list(zip(("model", "loss"), self._modules))
            optimizers = list(zip(self.optimizers, captured.optimizer_layouts))
            self.mirror = Mirror(roots, optimizers, captured.slots, job, self._gate)
            self.mirror.add_graph(captured.graph)
            if captured.scaler is not None:
                self.mirror.follow_scaler(captured.scaler)
            if not self.optimizers or self._captures.keeps_all:
                self.mirror.keep_gradients(captured.gradients, self._gradients)
            self.service.add_mirror(self.mirror)
            self._unwatch = weakref.finalize(self, self.mirror.release)
        self._unwatch.atexit = False

    def _offer(self, captured: CapturedJobGraph, encoded: bytes) -> Job:
        options = self._options

        def make(told: Scheduling) -> Job:
            return create_job(
                self.service,
                self.name,
                captured.slots,
                encoded,
                self._before.random,
                job_class="training",
                scheduling=told,
                shared=options.shared,
                replay=options.replay,
            )

        return self._owned.place(make, options.admission_timeout)
