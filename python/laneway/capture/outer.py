"""The tensors from outside of a step that its graph uses."""

from __future__ import annotations

from laneway.capture.recorder import Recorder
from laneway.capture.uses import OuterTensor
from laneway.graph.graph_ir import StorageKind


def outer_tensors(recorder: Recorder, numbers: list[int]) -> list[OuterTensor]:
    """What `recorder` recorded of them. `numbers` are the old numbers of the slots that stay, in
    their new order. Literals of the step, which each iteration makes, are none."""
    table, storages = recorder.table, recorder.table.storages
    written = {table.values[v].storage for node in recorder.nodes for v in node.writes}
    slots = {s.index for n in written if (s := storages[n]).kind == StorageKind.persistent}
    fresh = {storages[n].index for n in recorder.fresh}
    pinned = recorder.known.relied_on()
    return [
        OuterTensor(tensor, numbers.index(n), is_part, n in pinned, n in slots)
        for tensor, slot, is_part in recorder.constants.outer
        if (n := slot.index) in numbers and n not in fresh
    ]
