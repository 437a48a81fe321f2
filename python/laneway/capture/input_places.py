"""Where an input begins in memory, for operators whose bits depend on that.

Matrix products of the CPU's library (MKL) handle the first elements apart where an operand begins
between two multiples of 16 bytes, so a batch that is a slice of a table has other last bits than
its aligned copy. A job's copy of an input is aligned. Where the graph gives an input's memory to
such an operator, the place is a part of the form: the input begins as many bytes before the tensor
as there are to the multiple of 16, and the first node is the view behind them.
"""

from __future__ import annotations

import dataclasses
import warnings

import torch

from laneway.capture.recorder import Recorder
from laneway.capture.signature import InputSignature, TensorInput
from laneway.graph.graph_ir import (
    TORCH_OF_DTYPE,
    Graph,
    Node,
    NodeResult,
    StorageKind,
    Value,
    ValueArgument,
)
from laneway.graph.target import Target

# Operators whose kernels hand the memory of an operand to a library that looks at its address.
# Found by running the operators of torch.nn and torch.linalg on operands at all places.
_BY_ADDRESS = (
    "addbmm", "addmm", "addmv", "addr", "attention", "baddbmm", "bilinear", "bmm", "cdist",
    "convolution", "dot", "einsum", "gru", "linear", "lstm", "matmul", "mm", "mv", "ormqr", "rnn",
)  # fmt: skip


def place_inputs(
    graph: Graph, signature: InputSignature, recorder: Recorder, kept: list[int]
) -> None:
    """Changes both: an input that the graph gives to such an operator has its place in its spec,
    and begins there; of the others any place is right. `kept` are the numbers that the recorder has
    for the graph's slots: a tensor in a slot begins elsewhere than the user's, which is told."""
    on_cpu = recorder.target is Target.cpu
    wanted = _given_by_address(graph, StorageKind.input) if on_cpu else set()
    if on_cpu:
        _tell_of_slots(_given_by_address(graph, StorageKind.persistent), recorder, kept)
    views: list[Node] = []
    for position, spec in enumerate(signature.specs):
        if not isinstance(spec, TensorInput) or spec.place is None:
            continue
        if (
            position not in wanted
            or position in signature.whole
            or not _may_begin_before(graph, position, spec.place)
        ):
            _replace(signature, position, dataclasses.replace(spec, place=None))
        elif spec.place > 0:
            views.append(_begin_before(graph, position, spec))
    graph.nodes[:0] = views
    graph.first_write += len(views)


def reaches(tensor: torch.Tensor, place: int) -> bool:
    """Whether there are `place` bytes before the tensor in its memory."""
    return tensor.storage_offset() * tensor.element_size() >= place


def placed(tensor: torch.Tensor, place: int) -> torch.Tensor:
    """A copy at that place, with memory before it."""
    before = place // tensor.element_size()
    steps = zip(tensor.shape, tensor.stride())
    count = before + 1 + sum((size - 1) * stride for size, stride in steps)
    memory = torch.empty(count, dtype=tensor.dtype)
    made = memory.as_strided(tensor.shape, tensor.stride(), before)
    once = tuple(slice(1 if stride == 0 else None) for stride in tensor.stride())
    made[once].copy_(tensor[once])
    return made


def _given_by_address(graph: Graph, kind: StorageKind) -> set[int]:
    """The positions of the inputs, or slots, whose memory such an operator gets."""
    found: set[int] = set()
    for node in graph.nodes:
        words = node.op.partition("::")[2].partition(".")[0]
        if not any(name in words for name in _BY_ADDRESS):
            continue
        for value in node.reads():
            storage = graph.storages[graph.values[value].storage]
            if storage.kind == kind:
                found.add(storage.index)
    return found


def _tell_of_slots(numbers: set[int], recorder: Recorder, kept: list[int]) -> None:
    """Warns of tensors that begin between two multiples of 16: a slot begins at one."""
    slots = [recorder.slots.slots[kept[number]] for number in sorted(numbers)]
    parts = {slot.index: tensor for tensor, slot, is_part in recorder.constants.outer if is_part}
    for slot in slots:
        part = parts.get(slot.index)
        of = slot.initial.untyped_storage() if part is None else part
        place = of.data_ptr() % 16
        if place:
            warnings.warn(
                f"{slot.name} begins {place} bytes behind a multiple of 16 in memory and its copy "
                "in the job at one, and bits of matrix products depend on that: results may differ "
                "from eager's in their last bits; give it memory of its own with .clone(), in "
                "eager code too",
                RuntimeWarning,
                stacklevel=2,
            )


def _may_begin_before(graph: Graph, position: int, place: int) -> bool:
    """Whether the place is a whole number of elements of each value in the input's memory: a view
    of it may have another dtype."""
    return all(place % _itemsize(value) == 0 for _, value in _in_memory_of(graph, position))


def _in_memory_of(graph: Graph, position: int) -> list[tuple[int, Value]]:
    """The values in the input's memory, with their indices."""
    described = graph.values[graph.inputs[position]]
    return [
        (index, value)
        for index, value in enumerate(graph.values)
        if value.kind == described.kind and value.storage == described.storage
    ]


def _itemsize(value: Value) -> int:
    return TORCH_OF_DTYPE[value.dtype].itemsize


def _begin_before(graph: Graph, position: int, spec: TensorInput) -> Node:
    """The input's memory begins `spec.place` bytes earlier. Returns the node that makes the value
    which was the input."""
    own = graph.inputs[position]
    described = graph.values[own]
    number = described.storage
    itemsize = spec.dtype.itemsize
    before = spec.place // itemsize
    nbytes = graph.storages[number].nbytes + spec.place
    graph.storages[number] = dataclasses.replace(graph.storages[number], nbytes=nbytes)
    for index, value in _in_memory_of(graph, position):
        offset = value.storage_offset + spec.place // _itemsize(value)
        graph.values[index] = dataclasses.replace(value, storage_offset=offset)
    graph.values.append(
        Value(described.kind, described.dtype, number, 0, (nbytes // itemsize,), (1,))
    )
    graph.inputs[position] = len(graph.values) - 1
    layout = [list(described.sizes), list(described.strides), before]
    arguments = [("", ValueArgument(graph.inputs[position])), *(("", part) for part in layout)]
    return Node("aten::as_strided", arguments, [NodeResult(False, [own])])


def _replace(signature: InputSignature, position: int, spec: TensorInput) -> None:
    old = signature.specs[position]
    signature.specs[position] = spec
    signature.leaves = [spec if leaf is old else leaf for leaf in signature.leaves]
