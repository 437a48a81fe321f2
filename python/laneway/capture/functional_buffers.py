"""Moves writes to persistent memory from the middle of a step to its end.

Batch normalisation updates running statistics in the forward pass; from there on a step could not
be abandoned. A storage that is written before the optimizer gets an ephemeral stand-in: a clone
made before its first use, which every node uses instead, and one copy_ back at the end. A write
that no other node of the step reads (a counter) is moved to the end as it is. A storage that is
only written from its first write on (a parameter that the step updates itself) needs no stand-in,
because order_late brings those writes to the end. Written inputs and
written literals get stand-ins without the copy: the client's bytes are only read, and a literal is
new in every iteration.
"""

from __future__ import annotations

import collections
import dataclasses

from laneway.capture.late_form import Draft, rename
from laneway.errors import CaptureError
from laneway.graph.graph_ir import (
    NO_VALUE,
    TORCH_OF_DTYPE,
    Argument,
    MemoryFormat,
    Node,
    NodeResult,
    Storage,
    StorageKind,
    Value,
    ValueArgument,
)


def put_off_writes(draft: Draft) -> None:
    """Rewrites the draft so that in the "step" phase only ephemeral storages are written."""
    written: dict[int, list[int]] = {}
    for index, node in enumerate(draft.nodes):
        for storage in draft.written(node):
            kind = draft.storages[storage].kind
            if kind == StorageKind.ephemeral or storage in draft.written_late:
                continue
            if kind == StorageKind.input or draft.phases[index] == "step" or storage in draft.fresh:
                written.setdefault(storage, []).append(index)
    if not written:
        return
    touched = [draft.touched(node) for node in draft.nodes]
    counts = collections.Counter(storage for storages in touched for storage in storages)
    moved = {
        indices[0]
        for storage, indices in written.items()
        if counts[storage] == 1 and _stands_alone(draft, storage, draft.nodes[indices[0]])
    }
    stand_ins = _StandIns(draft, touched)
    for storage, indices in written.items():
        if indices[0] not in moved and not _only_written_behind(draft, storage, touched):
            stand_ins.make(storage)
    stand_ins.apply(moved)


def _stands_alone(draft: Draft, storage: int, node: Node) -> bool:
    """Whether the node can be moved to the end: it reads and writes nothing but the storage."""
    alone = draft.lasts(storage) and draft.touched(node) == {storage}
    numbers = any(draft.storage_of(value) is None for value in node.reads())
    return alone and not numbers and node.op not in draft.draws


def _only_written_behind(draft: Draft, storage: int, touched: list[set[int]]) -> bool:
    """Whether from its first write on nodes use the storage only to write it again. Then nothing
    but writes, which come late anyway, waits for the first write."""
    outputs = {draft.storage_of(value) for value in draft.outputs}
    if not draft.lasts(storage) or storage in outputs:
        return False
    is_written = False
    for node, of_node in zip(draft.nodes, touched):
        if storage not in of_node:
            continue
        results = [v for result in node.results for v in result.values if v != NO_VALUE]
        if storage in draft.written(node):
            is_written = True
            if results or node.op in draft.draws:
                return False
        elif is_written and (
            draft.written(node) or any(draft.storage_of(value) != storage for value in results)
        ):
            return False  # the new contents go into other memory; a view of them does not
    return True


class _StandIns:
    """Collects the stand-ins of a draft, then rewrites it once."""

    def __init__(self, draft: Draft, touched: list[set[int]]) -> None:
        self.draft = draft
        self.touched = touched  # storages, of each node
        self.produced = {
            v for node in draft.nodes for result in node.results for v in result.values
        }
        self.on_storage: dict[int, list[int]] = {}
        used = {v for node in draft.nodes for v in node.reads()}  # the nodes of others are gone
        for value in sorted(used | self.produced | {*draft.inputs, *draft.outputs}):
            if value == NO_VALUE:
                continue
            storage = draft.storage_of(value)
            if storage is not None:
                self.on_storage.setdefault(storage, []).append(value)
        self.renamed: dict[int, int] = {}  # value on the old storage -> value of the stand-in
        self.heads: dict[int, list[Node]] = {}  # old storage -> nodes before its first use
        self.tails: list[Node] = []

    def make(self, storage: int) -> None:
        """Makes a stand-in for `storage`: head nodes, tail nodes, and new names of values."""
        draft = self.draft
        on_it = self.on_storage[storage]
        roots = [v for v in on_it if v not in self.produced]
        old = draft.storages[storage]
        draft.storages.append(Storage(StorageKind.ephemeral, 0, old.nbytes))
        new_storage = len(draft.storages) - 1
        for value in on_it:
            if value in self.produced:
                draft.values[value].storage = new_storage
        whole = self._whole(roots, old)
        copy = self._value(dataclasses.replace(draft.values[whole], storage=new_storage))
        head = [_clone(whole, copy)]
        if old.kind == StorageKind.input and whole not in roots:  # gaps or overlaps
            head.insert(0, _as_strided(roots[0], whole, draft.values[whole]))
        for root in roots:
            if root == whole:
                self.renamed[root] = copy
                continue
            described = draft.values[root]
            view = self._value(dataclasses.replace(described, storage=new_storage))
            head.append(_as_strided(copy, view, described))
            self.renamed[root] = view
        self.heads[storage] = head
        if draft.lasts(storage):
            self.tails.append(
                Node(
                    "aten::copy_",
                    [("", ValueArgument(whole)), ("", ValueArgument(copy))],
                    [NodeResult(False, [NO_VALUE])],
                    [whole],
                )
            )

    def apply(self, moved: set[int]) -> None:
        """Rewrites the draft's nodes; `moved` are the indices of nodes that go to the end."""
        draft = self.draft
        waiting = dict(self.heads)
        nodes: list[Node] = []
        phases: list[str] = []
        tail = [draft.nodes[index] for index in sorted(moved)]

        def new_name(value: int) -> int:
            return self.renamed.get(value, value)

        for index, node in enumerate(draft.nodes):
            if index in moved:
                continue
            for storage in sorted(self.touched[index] & waiting.keys()):
                for head in waiting.pop(storage):
                    nodes.append(head)
                    phases.append("step")
            node.arguments = [(name, rename(a, new_name)) for name, a in node.arguments]
            node.writes = [new_name(v) for v in node.writes]
            nodes.append(node)
            phases.append(draft.phases[index])
        draft.outputs = [new_name(v) for v in draft.outputs]
        draft.nodes = nodes + tail + self.tails
        draft.phases = phases + ["tail"] * (len(tail) + len(self.tails))

    def _whole(self, roots: list[int], storage: Storage) -> int:
        """The root that covers its storage without gaps, or a flat value that does."""
        draft = self.draft
        if len(roots) == 1 and _covers(draft.values[roots[0]], storage):
            return roots[0]
        dtypes = {draft.values[root].dtype for root in roots}
        if len(dtypes) != 1:
            raise CaptureError(
                "a buffer that the step writes shares its memory with tensors of other dtypes",
                remedy="give the buffer memory of its own, with .clone()",
            )
        like = draft.values[roots[0]]
        count = storage.nbytes // _item_bytes(like)
        return self._value(
            dataclasses.replace(like, storage_offset=0, sizes=(count,), strides=(1,))
        )

    def _value(self, value: Value) -> int:
        self.draft.values.append(value)
        return len(self.draft.values) - 1


def _clone(source: int, result: int) -> Node:
    return Node(
        "aten::clone",
        [("", ValueArgument(source)), ("memory_format", MemoryFormat.preserve)],
        [NodeResult(False, [result])],
    )


def _as_strided(source: int, result: int, described: Value) -> Node:
    arguments: list[tuple[str, Argument]] = [
        ("", ValueArgument(source)),
        ("", list(described.sizes)),
        ("", list(described.strides)),
        ("", described.storage_offset),
    ]
    return Node("aten::as_strided", arguments, [NodeResult(False, [result])])


def _item_bytes(value: Value) -> int:
    return TORCH_OF_DTYPE[value.dtype].itemsize


def _covers(value: Value, storage: Storage) -> bool:
    """Whether the value's elements are the storage's bytes, each once."""
    count = 1
    for size in value.sizes:
        count *= size
    if value.storage_offset != 0 or count * _item_bytes(value) != storage.nbytes:
        return False
    expected = 1
    for size, stride in sorted(zip(value.sizes, value.strides), key=lambda pair: pair[1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
