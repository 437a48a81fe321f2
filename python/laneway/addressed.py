"""Memory that a step addresses by places in it (as_strided) instead of by tensors."""

from __future__ import annotations

from laneway.constants import Constants
from laneway.errors import CaptureError
from laneway.graph_ir import StorageKind
from laneway.value_table import ValueTable


class Addressed:
    """Whose memory a step addresses by places in it, counted from its beginning (as_strided). A job
    has the memory of what it is given as far as the tensor shows it, so that is right only for
    tensors that are all of their memory."""

    def __init__(self, table: ValueTable, constants: Constants) -> None:
        self._table = table
        self._constants = constants
        self.parts: set[int] = set()  # inputs that are not all of their memory
        self.inputs: set[int] = set()  # inputs whose memory is addressed

    def note(self, value: int) -> None:
        """The memory of `value` is addressed. Raises CaptureError, without operator and line, where
        the job has a part of it only."""
        storage = self._table.storages[self._table.values[value].storage]
        if storage.kind == StorageKind.input:
            self.inputs.add(storage.index)
        cut = {StorageKind.input: self.parts, StorageKind.persistent: self._constants.parts}
        if storage.index in cut.get(storage.kind, ()):
            raise CaptureError(
                "it counts from the beginning of a memory of which the job has the part only that "
                "the tensor shows",
                remedy="give it a tensor of its own with .clone(), or slice instead of as_strided",
            )
