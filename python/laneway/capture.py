"""Turns a training step or an inference, given as Python code, into a graph.

The step runs once on fake tensors: the model's parameters and buffers, the optimizer's state and
the example inputs are replaced by tensors without data, and a Recorder writes down every operator.
Nothing of the user's is changed: not the model, not the optimizer, not gradients, not random state.
The result holds the graph in the late form (see late_form.py), the slots of the job's image, and
how inputs and outputs map to the graph's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer

from laneway import optimizers
from laneway.errors import CaptureError
from laneway.fake_job import FakeJob
from laneway.functional_buffers import put_off_writes
from laneway.graph_encode import encode_graph
from laneway.graph_ir import Graph, GraphKind, StorageKind
from laneway.late_form import Draft, drop_dead, finish, merge_views, order_late
from laneway.loss_scaling import CapturedScaler
from laneway.numeric_context import current_numeric_context
from laneway.optimizers import OptimizerLayout
from laneway.random_state import drop_idle_states
from laneway.signature import (
    InputSignature,
    InputSpec,
    OutputSignature,
    bind_outputs,
    fake_inputs,
    learning_rate_inputs,
)
from laneway.slots import Slot, SlotTable

Closure = Callable[..., Any]  # (model, optimizer, *inputs) -> loss | (loss, aux…)


@dataclasses.dataclass
class CapturedJobGraph:
    """A graph with what is needed to run it from Python.

    `slots` are the job's image, the same list (or a longer one) for every graph of the job.
    `optimizer_layout` and `hyperparameters` are there for training steps only, `scaler` for those
    that use one.
    """

    graph: Graph
    slots: list[Slot]
    inputs: InputSignature
    outputs: OutputSignature
    optimizer_layout: OptimizerLayout | None = None
    hyperparameters: list[dict[str, Any]] | None = None
    scaler: CapturedScaler | None = None

    def encode(self) -> bytes:
        """The graph's binary form."""
        return encode_graph(self.graph)

    @property
    def input_spec(self) -> list[InputSpec]:
        """One entry per graph input, in order."""
        return self.inputs.specs

    @property
    def output_spec(self) -> OutputSignature:
        return self.outputs

    def holds_for(self, optimizer: Optimizer) -> bool:
        """Whether the hyperparameters taken as constant are still those of the capture."""
        return self.hyperparameters == optimizers.hyperparameters(optimizer)


def capture_train_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: Optimizer,
    example_inputs: tuple,
    example_kwargs: dict[str, Any] | None = None,
    closure: Closure | None = None,
    name: str = "train",
) -> CapturedJobGraph:
    """One whole training step as a graph: forward, backward, optimizer.

    Without `closure` the step is: clear gradients, loss_fn(model(*inputs[:-1], **kwargs),
    inputs[-1]), backward, optimizer.step(); loss_fn may return (loss, aux…), and None takes the
    model's own result as the loss. Raises CaptureError, naming operator, line and remedy, when the
    step cannot be recorded.
    """
    slots = SlotTable()
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    modules = [("model", model)]
    if isinstance(loss_fn, torch.nn.Module):
        modules.append(("loss", loss_fn))
    job = FakeJob(fake_mode, slots, modules)
    layout, copied = job.add_optimizer(optimizer)
    args, kwargs, signature, inputs = fake_inputs(
        job.recorder, tuple(example_inputs), dict(example_kwargs or {})
    )
    learning_rate_inputs(job.recorder, copied, signature, inputs)
    step = closure or _default_step(loss_fn)

    result = job.run(lambda: step(model, copied, *args, **kwargs))
    job.check_optimizer(copied)
    outputs_signature, outputs = bind_outputs(job.recorder, result)
    job.write_rebound_buffers()
    graph, kept = _finish(job, inputs, outputs, name, GraphKind.train)
    layout = layout.renumbered(kept)
    return CapturedJobGraph(
        graph,
        slots.kept(kept),
        signature,
        outputs_signature,
        layout,
        optimizers.hyperparameters(optimizer),
        job.scaler,
    )


def capture_inference(
    model: torch.nn.Module,
    example_inputs: tuple,
    example_kwargs: dict[str, Any] | None = None,
    slots_of: CapturedJobGraph | None = None,
    train_mode: bool = False,
    name: str = "inference",
) -> CapturedJobGraph:
    """model(*inputs, **kwargs) without gradients as a graph, in evaluation mode unless told.

    With `slots_of` the graph belongs to that job: tensors that both use have the slots that they
    have there, new ones are appended.
    """
    slots = SlotTable(slots_of.slots).copy() if slots_of is not None else SlotTable()
    job = FakeJob(FakeTensorMode(allow_non_fake_inputs=True), slots, [("model", model)])
    args, kwargs, signature, inputs = fake_inputs(
        job.recorder, tuple(example_inputs), dict(example_kwargs or {})
    )

    def infer() -> Any:
        with torch.no_grad():
            model.train(train_mode)
            return model(*args, **kwargs)

    result = job.run(infer)
    outputs_signature, outputs = bind_outputs(job.recorder, result)
    job.write_rebound_buffers()
    graph, _ = _finish(job, inputs, outputs, name, GraphKind.inference, keep_slots=True)
    return CapturedJobGraph(graph, slots.slots, signature, outputs_signature)


def _default_step(loss_fn: Callable[..., Any] | None) -> Closure:
    def step(model: Any, optimizer: Optimizer, *inputs: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        if loss_fn is None:
            result = model(*inputs, **kwargs)
        else:
            result = loss_fn(model(*inputs[:-1], **kwargs), inputs[-1])
        loss = result[0] if isinstance(result, (tuple, list)) else result
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise CaptureError(
                f"the loss is not one number but {shape}",
                remedy="reduce it with .mean() or .sum(), or pass closure=",
            )
        if not loss.requires_grad:
            raise CaptureError(
                "the loss does not depend on any parameter that requires a gradient",
                remedy="check requires_grad of the parameters and that the loss is not detached",
            )
        loss.backward()
        optimizer.step()
        return result

    return step


def _finish(
    job: FakeJob,
    inputs: list[int],
    outputs: list[int],
    name: str,
    kind: GraphKind,
    keep_slots: bool = False,
) -> tuple[Graph, list[int]]:
    """The graph in its late form, and the old numbers of the slots that stay, in their new order.
    State that was created for parameters which get no gradient has no slot."""
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
    )
    merge_views(draft)
    drop_idle_states(draft)
    drop_dead(draft)
    put_off_writes(draft)
    order_late(draft)
    used = {
        draft.storages[s].index
        for node in draft.nodes
        for s in draft.touched(node)
        if draft.storages[s].kind == StorageKind.persistent
    }
    kept = [
        slot.index
        for slot in recorder.slots.slots
        if keep_slots or not slot.created or slot.index in used
    ]
    graph = Graph(name, kind, current_numeric_context())
    finish(draft, graph, {old: new for new, old in enumerate(kept)})
    return graph, kept
