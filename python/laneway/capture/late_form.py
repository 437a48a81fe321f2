"""Brings recorded nodes into the late form: every write to persistent memory comes as late as
possible.

The passes over a Draft, in this order: merge views, drop unused nodes, give buffers that are
written in the middle an ephemeral stand-in (functional_buffers), order, and number anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from laneway.graph.graph_ir import (
    NO_VALUE,
    Argument,
    Graph,
    Node,
    NodeResult,
    Storage,
    StorageKind,
    Value,
    ValueArgument,
    ValueKind,
)


@dataclasses.dataclass
class Draft:
    """A recorded step. `phases[i]` belongs to nodes[i]: "step" (forward, backward, all other work
    of the closure), "optimizer" (inside Optimizer.step) or "tail" (writes put at the end)."""

    storages: list[Storage]
    values: list[Value]
    nodes: list[Node]
    phases: list[str]
    inputs: list[int]
    outputs: list[int]
    draws: frozenset[str]  # names of operators that draw random numbers
    fresh: frozenset[int] = frozenset()  # storages of literals: their writes do not outlast a step
    lazy: frozenset[int] = frozenset()  # values that are conjugated or negated when read
    # Storages that need no stand-in: forward and backward do not read their new contents.
    written_late: frozenset[int] = frozenset()

    def storage_of(self, value: int) -> int | None:
        """Index of the value's storage; None for a number."""
        described = self.values[value]
        return described.storage if described.kind == ValueKind.tensor else None

    def lasts(self, storage: int) -> bool:
        """Whether a write to the storage outlasts the iteration."""
        return self.storages[storage].kind == StorageKind.persistent and storage not in self.fresh

    def touched(self, node: Node) -> set[int]:
        """Storages of all tensors among the arguments."""
        return {s for v in node.reads() if (s := self.storage_of(v)) is not None}

    def written(self, node: Node) -> set[int]:
        return {s for v in node.writes if (s := self.storage_of(v)) is not None}


def rename(argument: Argument, new_name: Callable[[int], int]) -> Argument:
    """The argument with every value it names replaced by new_name(value)."""
    if isinstance(argument, ValueArgument):
        return ValueArgument(new_name(argument.value))
    if isinstance(argument, list):
        return [rename(element, new_name) for element in argument]
    return argument


def drop_dead(draft: Draft) -> None:
    """Removes nodes without effect: their results are not used, they write nothing that is used or
    outlasts the iteration, and they draw no random numbers. Unused results become NO_VALUE."""
    values = set(draft.outputs)
    storages = {s for v in draft.outputs if (s := draft.storage_of(v)) is not None}
    kept: list[int] = []
    for index in range(len(draft.nodes) - 1, -1, -1):
        node = draft.nodes[index]
        written = draft.written(node)
        needed = (
            node.op in draft.draws
            or any(draft.lasts(s) or s in storages for s in written)
            or any(v in values for result in node.results for v in result.values)
        )
        if not needed:
            continue
        kept.append(index)
        for result in node.results:
            result.values = [v if v in values else NO_VALUE for v in result.values]
        values.update(node.reads())
        storages.update(draft.touched(node))
    kept.reverse()
    draft.nodes = [draft.nodes[i] for i in kept]
    draft.phases = [draft.phases[i] for i in kept]


def merge_views(draft: Draft) -> None:
    """Drops nodes with a result that exists already: the same dtype, sizes, strides and offset on
    the same storage, as the transpose of a transpose."""
    known: dict[tuple, int] = {}
    renamed: dict[int, int] = {}

    def key(value: int) -> tuple:
        v = draft.values[value]
        return v.storage, v.dtype, v.storage_offset, v.sizes, v.strides

    def new_name(value: int) -> int:
        return renamed.get(value, value)

    kept: list[int] = []
    for index, node in enumerate(draft.nodes):
        node.arguments = [(name, rename(a, new_name)) for name, a in node.arguments]
        node.writes = [new_name(v) for v in node.writes]
        for value in node.reads():
            if draft.storage_of(value) is not None and value not in draft.lazy:
                known.setdefault(key(value), value)
        results = [v for result in node.results for v in result.values]
        is_view = (
            len(results) == 1
            and results[0] != NO_VALUE  # the result is an operand
            and not node.writes
            and results[0] not in draft.lazy
            and not any(v in draft.lazy for v in node.reads())
            and draft.storage_of(results[0]) in draft.touched(node)
        )
        if is_view and key(results[0]) in known:
            renamed[results[0]] = known[key(results[0])]
            continue
        kept.append(index)
        for value in results:
            if value == NO_VALUE or value in draft.lazy:
                continue
            if draft.storage_of(value) is not None:
                known.setdefault(key(value), value)
    draft.nodes = [draft.nodes[i] for i in kept]
    draft.phases = [draft.phases[i] for i in kept]
    draft.outputs = [new_name(v) for v in draft.outputs]


def order_late(draft: Draft) -> None:
    """Moves nodes of the "step" phase that do not depend on any persistent write before the first
    of them. All other nodes keep their order, the draws of random numbers included."""
    early: list[int] = []
    late: list[int] = []
    late_values: set[int] = set()
    late_written: set[int] = set()
    late_touched: set[int] = set()
    late_draws = False
    for index, (node, phase) in enumerate(zip(draft.nodes, draft.phases)):
        touched, written = draft.touched(node), draft.written(node)
        drawing = node.op in draft.draws
        is_late = (
            any(draft.storages[s].kind == StorageKind.persistent for s in written)
            or (phase != "step" and bool(late))
            or any(v in late_values for v in node.reads())
            or bool(touched & late_written)
            or bool(written & late_touched)
            or (drawing and late_draws)
        )
        if not is_late:
            early.append(index)
            continue
        late.append(index)
        late_values.update(v for result in node.results for v in result.values)
        late_written |= written
        late_touched |= touched
        late_draws = late_draws or drawing
    order = early + late
    draft.nodes = [draft.nodes[i] for i in order]
    draft.phases = [draft.phases[i] for i in order]


def finish(draft: Draft, graph: Graph, slot_numbers: dict[int, int] | None = None) -> None:
    """Fills `graph` from the draft, with only the values and storages that are used, numbered in
    order of first appearance, and first_write. `slot_numbers` renames slots."""
    numbers: dict[int, int] = {}
    storage_numbers: dict[int, int] = {}

    def number(value: int) -> int:
        if value == NO_VALUE:
            return NO_VALUE
        if value not in numbers:
            numbers[value] = len(graph.values)
            described = dataclasses.replace(draft.values[value])
            if described.kind == ValueKind.tensor:
                described.storage = storage(described.storage)
            graph.values.append(described)
        return numbers[value]

    def storage(old: int) -> int:
        if old not in storage_numbers:
            storage_numbers[old] = len(graph.storages)
            described = dataclasses.replace(draft.storages[old])
            if slot_numbers is not None and described.kind == StorageKind.persistent:
                described.index = slot_numbers[described.index]
            graph.storages.append(described)
        return storage_numbers[old]

    graph.inputs = [number(value) for value in draft.inputs]
    for node in draft.nodes:
        graph.nodes.append(
            Node(
                node.op,
                [(name, rename(argument, number)) for name, argument in node.arguments],
                [NodeResult(r.is_list, [number(v) for v in r.values]) for r in node.results],
                [number(v) for v in node.writes],
                node.source,
            )
        )
    graph.outputs = [number(value) for value in draft.outputs]
    graph.first_write = next(
        (i for i, node in enumerate(graph.nodes) if any(map(graph.is_persistent, node.writes))),
        len(graph.nodes),
    )
