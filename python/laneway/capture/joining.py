"""Makes a capture fit the image of an existing job.

An image never changes its layout while its job runs, so tensors that only a later graph uses
(constants, literals) become inputs of that graph, the same in every iteration.
"""

from __future__ import annotations

import dataclasses

import torch

from laneway.graph.graph_ir import Graph, SlotKind, Storage, StorageKind, ValueKind
from laneway.graph.slots import OtherImage, Slot


def join(graph: Graph, slots: list[Slot], known: int) -> tuple[Graph, list[torch.Tensor]]:
    """The graph with slots from number `known` on as inputs behind its others, and the tensors of
    those inputs in order. Raises OtherImage for a slot that cannot become an input: state that
    the job's first graph did not use, or a constant that is written or used through several
    views."""
    written = {graph.values[v].storage for node in graph.nodes for v in node.writes}
    roots = _roots(graph)
    inputs = list(graph.inputs)
    storages = list(graph.storages)
    fixed: list[torch.Tensor] = []
    for number, storage in enumerate(graph.storages):
        if storage.kind != StorageKind.persistent or storage.index < known:
            continue
        slot = slots[storage.index]
        _check(slot, len(roots[number]), number in written)
        storages[number] = Storage(StorageKind.input, len(inputs), storage.nbytes)
        inputs.append(roots[number][0])
        fixed.append(slot.initial_bytes().clone())
    return dataclasses.replace(graph, storages=storages, inputs=inputs), fixed


def _roots(graph: Graph) -> dict[int, list[int]]:
    """Values that no node makes, by storage."""
    made = {v for node in graph.nodes for result in node.results for v in result.values}
    made.update(graph.inputs)
    roots: dict[int, list[int]] = {}
    for number, value in enumerate(graph.values):
        if number not in made and value.kind == ValueKind.tensor:
            roots.setdefault(value.storage, []).append(number)
    return roots


def _check(slot: Slot, views: int, is_written: bool) -> None:
    if slot.kind != SlotKind.constant:
        raise OtherImage(
            f"{slot.name} has no place in the job's image: the job's first call did not use it",
            remedy="make a new step, whose first call uses everything that later ones do",
        )
    if is_written:
        raise OtherImage(
            f"{slot.name}, a tensor outside of the model, is written by this call and was not by "
            "the job's first",
            remedy="register it as a buffer of the model, or make a new step",
        )
    if views != 1:
        raise OtherImage(
            f"{slot.name} is used through {views} different views",
            remedy="use it through one, or give it a job of its own",
        )
