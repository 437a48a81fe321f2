"""GraphCall: one graph of a job as something to call: inputs in, outputs back, at once or later."""

from __future__ import annotations

import dataclasses
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from laneway.capture.border import can_be_laid_out
from laneway.capture.capture import CapturedJobGraph
from laneway.capture.guards import Guards
from laneway.capture.signature import InputSignature, OtherForm, OutputSignature
from laneway.capture.uses import MISSING, attributes_of, is_same, short
from laneway.errors import LayoutError
from laneway.graph.graph_ir import TORCH_OF_DTYPE, ValueKind
from laneway.jobs.calls import written_inputs
from laneway.jobs.calls.draws import Drawn, Draws
from laneway.jobs.calls.inputs import Binder, Frame
from laneway.jobs.calls.job import Future, Job
from laneway.jobs.calls.outer_tensors import OuterTensors
from laneway.jobs.calls.outputs import Buffers, Outputs
from laneway.jobs.calls.use_guards import UseGuards
from laneway.native import bindings

# The attribute of a KeyboardInterrupt that ended the wait for an iteration, which goes on.
UNDER_WAY = "laneway_iteration"


@dataclasses.dataclass(frozen=True)
class Form:
    """Which calls a graph is for."""

    signature: InputSignature
    guards: Guards | None
    # Attributes of tensors among the arguments: which, the name, the value.
    asked: list[tuple[int, str, Any]] = dataclasses.field(default_factory=list)

    def difference(self, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """In what the arguments are not of this form, in words; None when in nothing."""
        difference = self.signature.difference(args, kwargs)
        if difference is None and self.asked:
            difference = self.other_attribute(args, kwargs)
        if difference is not None or self.guards is None:
            return difference
        return self.guards.difference(self.signature.tensors(args, kwargs))

    def other_attribute(self, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """Which attribute that the step reads of an argument is not as it was, in words."""
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for position, name, value in self.asked:
            now = attributes_of(tensors[position]).get(name, MISSING)
            if not is_same(now, value):
                return (
                    f"the attribute {name!r} of argument {position}, which the step reads, is "
                    f"{short(now)} and was {short(value)}"
                )
        return None


class GraphCall:
    """Thread-safe. A call is two: take() its arguments, which looks at the user's optimizers, and
    run() or submit() the frame, once, which does not."""

    def __init__(
        self,
        job: Job,
        index: int,
        captured: CapturedJobGraph,
        optimizers: Sequence[Optimizer] = (),
    ) -> None:
        self._job = job
        self._index = index
        self.captured = captured
        self.form = Form(captured.inputs, captured.guards, captured.uses.asked)
        self.conditions: Any = None  # what the capture took as constant: see Variants
        left = captured.written_inputs, captured.input_gradients
        self._binder = Binder(captured.inputs, optimizers, captured.fixed, *left)
        self._warned = False  # that submit() writes no argument
        self._is_by_layout = captured.guards is None and not captured.uses.asked
        self.outer: OuterTensors | None = None
        if captured.uses.tensors:
            tensors, contents = captured.uses.tensors, job.outer_contents
            self.outer = OuterTensors(tensors, captured.slots, captured.fixed, job, contents)
        self.reads = UseGuards(captured.uses, self.outer)
        self._effects = captured.uses.effects
        self._changes = bool(self._effects) or self.outer is not None
        specs = [_output_spec(captured, value) for value in captured.graph.outputs]
        generators = captured.generators
        strides = _unusual_strides(captured)
        self._outputs = Outputs(specs, _rebuilder(captured.outputs), len(generators), strides)
        positions = self._binder.generator_positions
        self._draws = Draws(job, generators, positions) if generators else None
        # Bound here: looking them up is part of every call.
        self._run = job.library.lib.laneway_run
        self._submit = job.library.lib.laneway_submit

    def holds(self) -> bool:
        """Whether what the capture read of Python is as it was."""
        return self.reads.hold() and (self.outer is None or self.outer.difference() is None)

    def take(self, args: tuple, kwargs: dict[str, Any]) -> Frame:
        """Raises OtherForm, and nothing has happened, when the arguments are not of the form that
        the graph was captured for, or guards tell them apart."""
        if self._is_by_layout:
            return self._binder.take(args, kwargs)
        frame, form = self._binder.take(args, kwargs), self.form
        difference = form.other_attribute(args, kwargs) if form.asked else None
        if difference is None and form.guards is not None:
            difference = form.guards.difference(frame.keep)
        if difference is not None:
            self._binder.give_back(frame)
            raise OtherForm(difference)
        return frame

    def take_known(self, args: tuple, kwargs: dict[str, Any]) -> Frame:
        """The same for arguments that difference() found nothing in, or that the graph was just
        captured for: guards are not asked again."""
        return self._binder.take(args, kwargs)

    def is_for(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether nothing seems to be otherwise in that call; what only seems so, difference()
        finds to be equal, which takes ten times as long."""
        if not self.reads.hold_at_once() or self.form.difference(args, kwargs) is not None:
            return False
        return self.outer is None or self.outer.difference() is None

    def difference(self, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """In what the call is not the graph's, in words; None when in nothing."""
        difference = self.reads.difference() or self.form.difference(args, kwargs)
        if difference is None and self.outer is not None:
            return self.outer.difference()
        return difference

    def run(self, frame: Frame) -> Any:
        """Runs one iteration and waits for its result."""
        if self._draws is None:
            result = self._run_once(frame)
        else:
            result = self._draws.run(frame, self._run_once)
        if self._changes:
            self._change()
        return result

    def _change(self) -> None:
        """Makes the changes that the step makes in Python."""
        for effect in self._effects:
            effect.do()
        if self.outer is not None:
            self.outer.write_back()

    def _run_once(self, frame: Frame, drawn: Drawn | None = None) -> Any:
        buffers = self._outputs.buffers()
        code = self._run(
            self._job.handle(),
            self._index,
            frame.inputs,
            self._binder.count,
            buffers.native,
            len(buffers.tensors),
            frame.pending,
            frame.error,
        )
        if code == bindings.OK:
            targets = frame.targets
            self._binder.give_back(frame)
            return self._outputs.rebuild(buffers, targets, drawn)
        if code == bindings.PENDING:
            future = Future(
                self._job,
                frame.pending[0],
                self._outputs,
                frame.targets,
                buffers=buffers,
                drawn=drawn,
            )
            self._binder.give_back(frame)
            return _result_of(future)
        if code == bindings.BUSY:
            return _result_of(self._submitted(frame, frame.targets, buffers=buffers, drawn=drawn))
        error = bindings.exception_of(code, frame.error)
        self._binder.give_back(frame)
        raise error

    def run_beside(self, frame: Frame, other: Callable[[], None]) -> Any:
        """run(frame), and other() while the service runs the iteration."""
        future = self._start(frame)
        try:
            other()
        except KeyboardInterrupt as interrupt:
            setattr(interrupt, UNDER_WAY, future)
            raise
        result = _result_of(future)
        self._change()
        return result

    def _start(self, frame: Frame) -> Future:
        targets = frame.targets
        if self._draws is None:
            return self._submitted(frame, targets)
        return self._draws.submit(frame, lambda drawn: self._submitted(frame, targets, drawn=drawn))

    def submit(
        self, frame: Frame, on_other_layout: Callable[[LayoutError], None] | None = None
    ) -> Future:
        """Queues one iteration; the inputs are copied. Waits while as many as the service takes are
        in flight. `on_other_layout` is told of an iteration that was taken back because of that."""
        if frame.targets and not self._warned:
            self._warned = True
            written_inputs.warn_of_submit()
        if self._draws is None:
            future = self._submitted(frame, [], on_other_layout)
        else:
            future = self._draws.submit(
                frame, lambda drawn: self._submitted(frame, [], on_other_layout, drawn=drawn)
            )
        self._change()
        return future

    def _submitted(
        self,
        frame: Frame,
        targets: list[torch.Tensor],
        on_other_layout: Callable[[LayoutError], None] | None = None,
        buffers: Buffers | None = None,
        drawn: Drawn | None = None,
    ) -> Future:
        try:
            while True:
                code = self._submit(
                    self._job.handle(),
                    self._index,
                    frame.inputs,
                    self._binder.count,
                    frame.pending,
                    frame.error,
                )
                if code == bindings.OK:
                    break
                if code != bindings.BUSY:
                    raise bindings.exception_of(code, frame.error)
                self._job.wait_for_room()
            future = Future(
                self._job,
                frame.pending[0],
                self._outputs,
                targets,
                on_other_layout,
                buffers,
                drawn,
            )
            future.keep(self)  # its graph is not dropped before the iteration has run
            return future
        finally:
            self._binder.give_back(frame)


def _result_of(future: Future) -> Any:
    try:
        return future.result()
    except KeyboardInterrupt as interrupt:
        setattr(interrupt, UNDER_WAY, future)
        raise


def call_of(
    job: Job, index: int, captured: CapturedJobGraph, optimizers: Sequence[Optimizer] = ()
) -> GraphCall:
    """The call of graph `index`, which the service drops when the result is gone, and with it
    whoever could be inside a call. A job's last graph stays with the job."""
    call = GraphCall(job, index, captured, optimizers)
    weakref.finalize(call, job.drop_graph, index).atexit = False
    return call


def _unusual_strides(captured: CapturedJobGraph) -> dict[int, tuple[int, ...]]:
    """By its position, the strides of each result that are not those of a new tensor, and that a
    new tensor can have: elements do not overlap, and memory between them is not most of it."""
    graph = captured.graph
    behind = captured.written_inputs, captured.input_gradients, captured.generators
    count = len(graph.outputs) - sum(map(len, behind))
    found: dict[int, tuple[int, ...]] = {}
    for position, number in enumerate(graph.outputs[:count]):
        value = graph.values[number]
        if value.kind != ValueKind.tensor or 0 in value.sizes:
            continue
        plain = torch.empty(value.sizes, device="meta").stride()
        own = [(s, n) for n, s, p in zip(value.sizes, value.strides, plain) if n > 1 and s != p]
        if own and can_be_laid_out(value.sizes, value.strides, TORCH_OF_DTYPE[value.dtype]):
            found[position] = tuple(value.strides)
    return found


def _rebuilder(outputs: OutputSignature) -> Callable[[list[Any]], Any]:
    """What makes the step's result of the graph's outputs. Where it is one of them, nothing is put
    together."""
    structure, leaves = outputs.structure, outputs.leaves
    is_one = structure.is_leaf() and isinstance(leaves[0], int) and not outputs.left
    return operator.itemgetter(leaves[0]) if is_one else outputs.rebuild


def _output_spec(
    captured: CapturedJobGraph, number: int
) -> tuple[torch.dtype, tuple[int, ...], type | None]:
    value = captured.graph.values[number]
    if value.kind == ValueKind.tensor:
        return TORCH_OF_DTYPE[value.dtype], tuple(value.sizes), None
    if value.kind == ValueKind.real:
        return torch.float64, (), float
    return torch.int64, (), bool if value.kind == ValueKind.boolean else int
