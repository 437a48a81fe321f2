"""A graph that draws from the client's generators, as eager does.

The state of each generator is an input of the graph, and its state after the step is an output. A
generator that the step gives to an operator is followed while the step is recorded
(given_generators.py): each draw from it lies between a change of the job's own generator to its
state and the change back. torch's default generator is added when the graph is known: its state is
put into the job's generator first, and read last. A graph that draws nothing has neither.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.late_form import Draft
from laneway.capture.random_state import READ, RESTORE, STATE_BYTES
from laneway.capture.recorder import Recorder
from laneway.capture.signature import GENERATOR, InputSignature, TensorInput
from laneway.graph.graph_ir import GeneratorArgument, Node, NodeResult, ValueArgument


def bind_given(
    recorder: Recorder, signature: InputSignature, inputs: list[int], outputs: list[int]
) -> list[torch.Generator]:
    """Makes the states of the generators that the step gave to operators the next inputs and
    outputs of the graph; returns the generators."""
    generators = recorder.generators
    if generators is None:
        return []
    table = recorder.table
    for position, (value, state) in enumerate(zip(generators.inputs, generators.states)):
        table.storages[table.values[value].storage].index = len(inputs)
        signature.specs.append(_spec(position))
        inputs.append(value)
        outputs.append(recorder.value_of(state))
    return list(generators.given)


def add_default(
    recorder: Recorder, draft: Draft, signature: InputSignature, keeps_own: bool = False
) -> list[torch.Generator]:
    """Lets a graph that draws do so from torch's default generator; the list of that, or of nothing
    when the graph does not draw or draws from the job's generator. `keeps_own`: the state of the
    job's generator is afterwards what it was.

    Requires: the draft has no nodes without effect any more."""
    if recorder.generators is None or not any(node.op in draft.draws for node in draft.nodes):
        return []
    given, left, own = (_state(recorder) for _ in range(3))
    value = recorder.table.add_input(given, len(draft.inputs))
    after = recorder.table.add(left)
    before = recorder.table.add(own)
    first, last = [_restore(value)], [_read(after)]
    if keeps_own:
        first, last = [_read(before), *first], [*last, _restore(before)]
    draft.nodes = [*first, *draft.nodes, *last]
    draft.phases = ["step"] * len(first) + draft.phases + ["step"] * len(last)
    draft.draws = draft.draws | {READ, RESTORE}
    draft.inputs.append(value)
    draft.outputs.append(after)
    signature.specs.append(_spec(len(recorder.generators.given)))
    return [torch.default_generator]


def _state(recorder: Recorder) -> torch.Tensor:
    with _disable_current_modes(), recorder.fake_mode:
        return torch.empty(STATE_BYTES, dtype=torch.uint8)


def _restore(state: int) -> Node:
    return Node(RESTORE, [("", ValueArgument(state)), ("generator", GeneratorArgument())])


def _read(state: int) -> Node:
    return Node(READ, [("generator", GeneratorArgument())], [NodeResult(False, [state])])


def _spec(position: int) -> TensorInput:
    return TensorInput(torch.uint8, (STATE_BYTES,), (1,), False, (GENERATOR, position))
