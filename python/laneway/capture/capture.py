"""Turns a training step or an inference, given as Python code, into a graph.

The step runs once on fake tensors: the model's parameters and buffers, the optimizer's state and
the example inputs are replaced by tensors without data, and a Recorder records every operator. The
user's model, optimizer, gradients and random state stay unchanged. The result holds the graph in
the late form (see late_form.py), the slots of the job's image, and how inputs and outputs map to
the graph's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import torch
from torch.optim import Optimizer

from laneway.capture import given, shared_random, side_effects
from laneway.capture.chance import located
from laneway.capture.default_step import default_step
from laneway.capture.effects import settled
from laneway.capture.fake_job import FakeJob, new_fake_mode
from laneway.capture.functional_buffers import put_off_writes
from laneway.capture.given_generators import steady
from laneway.capture.guards import Guards
from laneway.capture.input_gradients import InputGradients
from laneway.capture.input_places import place_inputs
from laneway.capture.joining import join
from laneway.capture.kept_gradients import every_parameter
from laneway.capture.late_form import Draft, drop_dead, finish, merge_views, order_late
from laneway.capture.loss_scaling import CapturedScaler
from laneway.capture.number_inputs import learning_rate_inputs
from laneway.capture.numeric_context import current_numeric_context
from laneway.capture.optimizers import OptimizerLayout, check_state
from laneway.capture.outer import outer_tensors
from laneway.capture.random_state import drop_idle_states
from laneway.capture.recorder import StaleGradient
from laneway.capture.signature import (
    InputSignature,
    InputSpec,
    OutputSignature,
    bind_outputs,
    fake_inputs,
)
from laneway.capture.survivors import none_survive
from laneway.capture.uses import Uses
from laneway.graph.graph_encode import encode_graph
from laneway.graph.graph_ir import Graph, GraphKind, StorageKind
from laneway.graph.slots import HasSlots, Path, Slot, SlotTable
from laneway.graph.target import Target

Closure = Callable[..., Any]  # (model, optimizer, *inputs) -> loss | (loss, aux…)
Optimizers = Optimizer | Sequence[Optimizer] | None


@dataclasses.dataclass
class CapturedJobGraph:
    """A graph, with all that Python needs to run it.

    `slots` are the job's image, the same list (or a longer one) for every graph of the job.
    `fixed` are the tensors of the inputs behind those of the signature: see joining.py. The last
    outputs are what the step leaves in the inputs at `written_inputs`, and adds to the gradients of
    those at `input_gradients`. `guards` say which calls of
    the signature's form are the graph's; None: all. `generators` are those of the client's that the
    graph draws from: their states are the last inputs of the signature and the last outputs. The
    rest is there for training steps only: of each optimizer its layout, and whether its step() was
    called; the loss scaler, if one is used; the parameters whose gradients are state, and for each
    whether it has one after the step; the modules whose train() or eval() the step calls, and the
    mode in which it leaves them. `uses` is what the capture used of Python.
    """

    graph: Graph
    slots: list[Slot]
    inputs: InputSignature
    outputs: OutputSignature
    fixed: list[torch.Tensor] = dataclasses.field(default_factory=list)
    written_inputs: list[int] = dataclasses.field(default_factory=list)
    guards: Guards | None = None
    generators: list[torch.Generator] = dataclasses.field(default_factory=list)
    optimizer_layouts: list[OptimizerLayout] = dataclasses.field(default_factory=list)
    scaler: CapturedScaler | None = None
    stepped: list[bool] = dataclasses.field(default_factory=list)
    gradients: dict[Path, bool] = dataclasses.field(default_factory=dict)
    modes: side_effects.Modes = dataclasses.field(default_factory=list)
    input_gradients: list[int] = dataclasses.field(default_factory=list)
    uses: Uses = dataclasses.field(default_factory=lambda: Uses([], []))

    def encode(self) -> bytes:
        """The graph's binary form."""
        return encode_graph(self.graph)

    @property
    def input_spec(self) -> list[InputSpec]:
        """One entry per input of the signature, in order."""
        return self.inputs.specs


@dataclasses.dataclass
class _Training:
    """The parts of one capture of a training step."""

    model: torch.nn.Module
    loss_fn: Callable[..., Any] | None
    optimizer: Optimizers
    inputs: tuple
    kwargs: dict[str, Any]
    closure: Closure | None
    name: str
    slots_of: CapturedJobGraph | None
    target: Target
    shares_random: bool
    floats: Collection[int]


@none_survive
def capture_train_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: Optimizers,
    example_inputs: tuple,
    example_kwargs: dict[str, Any] | None = None,
    closure: Closure | None = None,
    name: str = "train",
    slots_of: CapturedJobGraph | None = None,
    keep_gradients: bool | Literal["all"] | None = None,
    target: Target = Target.cpu,
    shares_random: bool = False,
    floats: Collection[int] = (),
) -> CapturedJobGraph:
    """One whole training step as a graph: forward, backward, optimizer.

    Without `closure` the step is: clear gradients, loss_fn(model(*inputs[:-1], **kwargs),
    inputs[-1]), backward, optimizer.step(); loss_fn may return (loss, aux…), and None takes the
    model's own result as the loss, or the entry "loss" of a dictionary that it returns. Several
    optimizers (a list) and None need a closure, which gets them; several models are a ModuleList.
    With `slots_of` the graph belongs to that job, which it joins. `keep_gradients` says whether
    gradients outlast the step, as state of the job; None: if it uses gradients from before it, or
    leaves some of parameters that neither an optimizer nor the step itself updates; "all": those of
    all parameters that require one. `target` is whose kernels will run the graph. `shares_random`:
    it draws from the client's generators as eager does, else from the job's. `floats` are the
    leaves of the arguments, all floats, that are inputs and no constants. Raises CaptureError,
    naming operator, line and remedy, when the step cannot be recorded.
    """
    step = model, loss_fn, optimizer, tuple(example_inputs), dict(example_kwargs or {})
    training = _Training(*step, closure, name, slots_of, target, shares_random, floats)
    if slots_of is not None:
        return _capture_once(training, frozenset(slots_of.gradients))
    if keep_gradients == "all":
        modules = (("model", model), ("loss", loss_fn))
        return _capture_once(training, every_parameter(modules))
    if keep_gradients:
        return _capture_once(training, _accumulated(training))
    try:
        return _capture_once(training, frozenset(), allow_left=keep_gradients is False)
    except (StaleGradient, _GradientsLeft):
        if keep_gradients is False:
            raise
        return _capture_once(training, _accumulated(training))


@none_survive
def capture_inference(
    model: torch.nn.Module,
    example_inputs: tuple,
    example_kwargs: dict[str, Any] | None = None,
    slots_of: HasSlots | None = None,
    train_mode: bool | None = False,
    name: str = "inference",
    closure: Callable[..., Any] | None = None,
    target: Target = Target.cpu,
    shares_random: bool = False,
    floats: Collection[int] = (),
) -> CapturedJobGraph:
    """model(*inputs, **kwargs), or closure(model, *inputs, **kwargs), without gradients as a graph,
    in training mode if `train_mode`, in evaluation mode if it is False, and with each module's own
    flag if it is None.

    With `slots_of` the graph belongs to that job, which it joins: tensors that both use have the
    slots that they have there. `shares_random` and `floats` as for capture_train_step; the
    generator of the job is left as it was.
    """

    def run_once() -> tuple[FakeJob, SlotTable, InputSignature, list[int], Any]:
        slots = SlotTable(slots_of.slots).copy() if slots_of is not None else SlotTable()
        job = FakeJob(
            new_fake_mode(), slots, [("model", model)], target=target, shares_random=shares_random
        )
        args, kwargs, signature, inputs = fake_inputs(
            job.recorder, tuple(example_inputs), dict(example_kwargs or {}), floats
        )
        result = job.run(lambda: infer(model, closure, train_mode, args, kwargs), [closure])
        return job, slots, signature, inputs, result

    def run() -> tuple[Any, Uses]:
        ran = steady(run_once, lambda ran: ran[0].recorder.generators)
        return ran, ran[0].uses

    job, slots, signature, inputs, result = located(lambda: settled(run))
    outputs_signature, outputs = bind_outputs(job.recorder, result, job.left)
    signature.whole = job.recorder.addressed.inputs
    job.write_rebound_buffers()
    written = _written_inputs(job, signature)
    outputs += [inputs[position] for position in written]
    guards = job.recorder.known.guards()
    generators = shared_random.bind_given(job.recorder, signature, inputs, outputs)
    draft = _draft(job, inputs, outputs)
    generators += shared_random.add_default(job.recorder, draft, signature, keeps_own=True)
    graph, kept = _finish(job, draft, name, GraphKind.inference, keep_slots=True)
    place_inputs(graph, signature, job.recorder, kept)
    job.uses.tensors = outer_tensors(job.recorder, kept)
    captured = CapturedJobGraph(
        graph,
        slots.slots,
        signature,
        outputs_signature,
        written_inputs=written,
        guards=guards,
        generators=generators,
        uses=job.uses,
    )
    return captured if slots_of is None else _joined(captured, slots_of)


def infer(
    model: torch.nn.Module,
    closure: Closure | None,
    train_mode: bool | None,
    args: tuple,
    kwargs: dict[str, Any],
) -> Any:
    """What an inference of these runs; see capture_inference."""
    with torch.no_grad():
        if train_mode is not None:
            model.train(train_mode)
        if closure is not None:
            return closure(model, *args, **kwargs)
        return model(*args, **kwargs)


class _GradientsLeft(Exception):
    """The step leaves gradients of parameters that it did not update."""


def _accumulated(training: _Training) -> frozenset[Path]:
    """The parameters that get a gradient in the step. The step runs once for this answer, and its
    graph is dropped."""
    job, *_ = _run(training, None)
    return frozenset(job.gradients.accumulated)


def _capture_once(
    training: _Training, kept_gradients: frozenset[Path], allow_left: bool = False
) -> CapturedJobGraph:
    job, layouts, signature, inputs, result = _run(training, kept_gradients)
    first = training.slots_of is None
    if first and not allow_left and not kept_gradients and job.leaves_gradients():
        raise _GradientsLeft
    outputs_signature, outputs = bind_outputs(job.recorder, result, job.left)
    signature.whole = job.recorder.addressed.inputs
    job.write_rebound_buffers()
    gradients = job.write_gradients()
    written = _written_inputs(job, signature)
    outputs += [inputs[position] for position in written]
    input_gradients = job.input_gradients.left(job.modules)
    outputs += input_gradients.values()
    held = job.slots_for_later(layouts)
    guards = job.recorder.known.guards()
    generators = shared_random.bind_given(job.recorder, signature, inputs, outputs)
    draft = _draft(job, inputs, outputs)
    generators += shared_random.add_default(job.recorder, draft, signature)
    graph, kept = _finish(job, draft, training.name, GraphKind.train, not first, held)
    place_inputs(graph, signature, job.recorder, kept)
    job.uses.tensors = outer_tensors(job.recorder, kept)
    captured = CapturedJobGraph(
        graph,
        job.recorder.slots.kept(kept),
        signature,
        outputs_signature,
        written_inputs=written,
        guards=guards,
        generators=generators,
        optimizer_layouts=[layout.renumbered(kept) for layout in layouts],
        scaler=job.scaler,
        stepped=job.stepped(),
        modes=job.modes,
        gradients=gradients,
        input_gradients=list(input_gradients),
        uses=job.uses,
    )
    return captured if training.slots_of is None else _joined(captured, training.slots_of)


def _run(
    training: _Training, kept_gradients: frozenset[Path] | None
) -> tuple[FakeJob, list[OptimizerLayout], InputSignature, list[int], Any]:
    """Runs the step on fakes."""

    def run() -> tuple[Any, Uses]:
        ran = steady(
            lambda: _run_once(training, kept_gradients), lambda ran: ran[0].recorder.generators
        )
        return ran, ran[0].uses

    return located(lambda: settled(run))


def _run_once(
    training: _Training, kept_gradients: frozenset[Path] | None
) -> tuple[FakeJob, list[OptimizerLayout], InputSignature, list[int], Any]:
    slots_of = training.slots_of
    slots = SlotTable(slots_of.slots).copy() if slots_of is not None else SlotTable()
    modules = [("model", training.model)]
    if isinstance(training.loss_fn, torch.nn.Module):
        modules.append(("loss", training.loss_fn))
    fake_mode = new_fake_mode()
    job = FakeJob(
        fake_mode, slots, modules, kept_gradients, training.target, training.shares_random
    )
    added = [
        job.add_optimizer(optimizer, given.path_of(training.optimizer, "optimizer", number))
        for number, optimizer in enumerate(given.all_of(training.optimizer))
    ]
    layouts, copies = [layout for layout, _ in added], [copied for _, copied in added]
    arguments = (training.inputs, training.kwargs)
    args, kwargs, signature, inputs = fake_inputs(job.recorder, *arguments, training.floats)
    job.input_gradients = InputGradients(job.recorder, arguments, (args, kwargs))
    learning_rate_inputs(job.recorder, copies, signature, inputs)
    step = training.closure or default_step(training.loss_fn)
    optimizer = given.in_form_of(training.optimizer, copies)
    functions = [training.loss_fn, training.closure]
    result = job.run(lambda: step(training.model, optimizer, *args, **kwargs), functions)
    for layout, copied in added:
        check_state(copied, layout, job.recorder.table)
    return job, layouts, signature, inputs, result


def _written_inputs(job: FakeJob, signature: InputSignature) -> list[int]:
    """The positions of the caller's tensors that the step writes."""
    written = job.recorder.written_inputs()
    return [p for p in written if signature.specs[p].source[0] == "input"]


def _joined(captured: CapturedJobGraph, job: HasSlots) -> CapturedJobGraph:
    """The capture over exactly the job's slots."""
    known = len(job.slots)
    graph, fixed = join(captured.graph, captured.slots, known)
    return dataclasses.replace(captured, graph=graph, fixed=fixed, slots=job.slots)


def _draft(job: FakeJob, inputs: list[int], outputs: list[int]) -> Draft:
    """What was recorded, without what has no effect."""
    recorder = job.recorder
    draft = Draft(
        recorder.table.storages,
        recorder.table.values,
        recorder.nodes,
        recorder.phases,
        inputs,
        outputs,
        draws=frozenset(recorder.drawing),
        fresh=frozenset(recorder.fresh),
        lazy=frozenset(recorder.table.lazy),
        written_late=job.gradients.storages(),
    )
    merge_views(draft)
    drop_idle_states(draft)
    drop_dead(draft)
    return draft


def _finish(
    job: FakeJob,
    draft: Draft,
    name: str,
    kind: GraphKind,
    keep_slots: bool = False,
    held: Collection[int] = (),
) -> tuple[Graph, list[int]]:
    """The graph in its late form, and the old numbers of the slots that stay, in their new order.
    State that was created for parameters which get no gradient has no slot, unless it is `held`."""
    recorder = job.recorder
    put_off_writes(draft)
    order_late(draft)
    used = {
        draft.storages[s].index
        for node in draft.nodes
        for s in draft.touched(node)
        if draft.storages[s].kind == StorageKind.persistent
    }
    used.update(held)
    kept = [
        slot.index
        for slot in recorder.slots.slots
        if keep_slots or not slot.created or slot.index in used
    ]
    graph = Graph(name, kind, current_numeric_context())
    finish(draft, graph, {old: new for new, old in enumerate(kept)})
    recorder.target.check_kernels(graph)
    return graph, kept
