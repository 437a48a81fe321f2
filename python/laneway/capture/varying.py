"""Which values of a recorded step are the same in every iteration."""

from __future__ import annotations

from typing import Any

import torch

from laneway.capture.recorder import Recorder
from laneway.graph.graph_ir import SlotKind, StorageKind, ValueKind

SYMBOLS = (torch.SymFloat, torch.SymInt, torch.SymBool)


class Varying:
    """Which values of a recorded step are not the same in every iteration: those that depend on
    inputs, on state or on random numbers."""

    def __init__(self, recorder: Recorder) -> None:
        self._table, slots = recorder.table, recorder.slots.slots
        self._storages = {
            number
            for number, storage in enumerate(self._table.storages)
            if storage.kind == StorageKind.input
            or (
                storage.kind == StorageKind.persistent
                and slots[storage.index].kind != SlotKind.constant
            )
        }
        self._values: set[int] = set()
        for node in recorder.nodes:
            if node.op in recorder.drawing or any(self._varies(v) for v in node.reads()):
                made = [v for result in node.results for v in result.values]
                for value in (*made, *node.writes):
                    self._note(value)

    def holds(self, part: Any) -> bool:
        """Whether the tensor or number is one of those values, or unknown."""
        if isinstance(part, SYMBOLS):
            return True
        value = self._table.find(part)
        return value is None or self._varies(value)

    def _varies(self, value: int) -> bool:
        if value in self._values:
            return True
        described = self._table.values[value]
        return described.kind == ValueKind.tensor and described.storage in self._storages

    def _note(self, value: int) -> None:
        if value < len(self._table.values):  # NO_VALUE is beyond
            self._values.add(value)
            if self._table.values[value].kind == ValueKind.tensor:
                self._storages.add(self._table.values[value].storage)
