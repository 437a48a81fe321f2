"""Numbers that a step reads from tensors and that can be computed before it runs.

A step may decide by numbers from tensors that depend only on constants, the program itself and the
step's inputs: whether a mask of the model is causal, how long a table is, whether an attention mask
has a False. The capture computes such a number: it runs the nodes that lead to it on real tensors,
and the decision is that of eager execution. A number from inputs becomes a guard (guards.py): the
graph fits calls with inputs that give the same number. A number that depends on weights, state or
random numbers is not known.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.guards import (
    LIKE_OPERATORS,
    Constant,
    Guards,
    Number,
    Origins,
    Program,
    Question,
    operator_of,
)
from laneway.capture.value_table import ValueTable
from laneway.errors import CaptureError
from laneway.graph.graph_ir import (
    Argument,
    GeneratorArgument,
    Node,
    SlotKind,
    StorageKind,
    ValueKind,
)
from laneway.graph.slots import SlotTable


class KnownNumbers:
    """Reads the nodes that a recorder has recorded so far; `nodes` and `fresh` (storages of Python
    literals, new in every iteration) belong to the recorder and grow. One per capture."""

    def __init__(
        self, table: ValueTable, slots: SlotTable, nodes: list[Node], fresh: set[int]
    ) -> None:
        self._table = table
        self._slots = slots
        self._nodes = nodes
        self._fresh = fresh
        self._relied_on: set[int] = set()  # storages of constants that a known number came from
        self._positions: dict[int, int] = {}  # value of an input -> its place in _examples
        self._examples: list[torch.Tensor] = []
        self._initial: dict[int, torch.UntypedStorage] = {}  # copies of constants, by storage
        self._answers: dict[Question, Number] = {}
        self._guarded: set[int] = set()  # positions of the nodes that lead from inputs to answers
        self._questions: list[Question] = []

    def give(self, value: int, example: torch.Tensor) -> None:
        """Sets the tensor of input `value` in the captured call, in the layout that the graph
        takes. Must be called in the order of the graph's inputs."""
        self._positions[value] = len(self._examples)
        self._examples.append(example)

    def number(
        self, operands: tuple[Argument, ...], compute: Callable[..., Number] | None = None
    ) -> Number | None:
        """The value of the only operand, or of compute(*operands), in every call for which the
        guards hold; None when it is not known. Raises what the operators that lead to it raise."""
        question = Question(operands, compute)
        if question in self._answers:
            return self._answers[question]
        leading = self._nodes_before(question.values())
        if leading is None:
            return None
        places, constants, inputs = leading
        try:
            (answer,) = self._program(places, [question]).answers(self._examples)
        except NotImplementedError:  # the operator is one of another device than the client's
            return None
        self._relied_on |= constants
        self._answers[question] = answer
        if inputs:
            self._guarded.update(places)
            self._questions.append(question)
        return answer

    def guards(self) -> Guards | None:
        """The guards for later calls; None when no answer came from inputs. Must be called before
        the nodes are changed."""
        if not self._questions:
            return None
        return Guards(self._program(sorted(self._guarded), self._questions), self._examples)

    def relied_on(self) -> set[int]:
        """The slots whose bytes decided what was captured."""
        return {self._table.storages[s].index for s in self._relied_on}

    def check_writes(self, node: Node) -> None:
        """Raises CaptureError for a node that writes a tensor from which a known number came."""
        for value in node.writes:
            if self._table.values[value].storage in self._relied_on:
                raise CaptureError(
                    "the step writes to a tensor after it decided by what it read from it",
                    remedy="make it a registered buffer, and keep the decision in tensors",
                )

    def _nodes_before(self, values: list[int]) -> tuple[list[int], set[int], bool] | None:
        """The positions of the nodes that must run to know the values, in order; the storages of
        constants that they read; and whether they read inputs. None when the values depend on more
        than these."""
        wanted, storages = set(values), self._storages_of(values)
        places: list[int] = []
        made: set[int] = set()
        for place in range(len(self._nodes) - 1, -1, -1):
            node = self._nodes[place]
            results = {v for result in node.results for v in result.values}
            if not (results & wanted or self._storages_of(node.writes) & storages):
                continue
            draws = any(isinstance(argument, GeneratorArgument) for _, argument in node.arguments)
            if draws or operator_of(node.op) is None:
                return None
            reads = _read(node)
            places.append(place)
            made |= results
            wanted.update(reads)
            storages |= self._storages_of(reads)
        constants = storages & self._constants()
        inputs = {self._table.values[v].storage for v in self._positions} & storages
        others = {s for s in storages - constants - inputs if not self._is_ephemeral(s)}
        unmade = [v for v in wanted - made if v not in self._positions]
        written = {s for node in self._nodes for s in self._storages_of(node.writes)}
        lasting = constants - self._fresh
        if others or written & lasting or any(not self._is_on(v, constants) for v in unmade):
            return None
        return places[::-1], lasting, bool(inputs)

    def _program(self, places: list[int], questions: list[Question]) -> Program:
        nodes = [self._nodes[place] for place in places]
        made = {v for node in nodes for result in node.results for v in result.values}
        read = dict.fromkeys(v for node in nodes for v in _read(node) if v not in made)
        blanks = {n.reads()[0] for n in nodes if n.op in LIKE_OPERATORS}
        written = {s for node in nodes for s in self._storages_of(node.writes)}
        values = self._table.values
        with _disable_current_modes():
            origins = Origins(
                {v: self._positions[v] for v in read if v in self._positions},
                {v: self._constant(v) for v in read if v not in self._positions},
                {v: values[v] for v in blanks},
                {v for v in read if values[v].storage in written},
            )
            return Program(nodes, questions, origins)

    def _constant(self, value: int) -> Constant:
        described = self._table.values[value]
        if described.storage not in self._initial:
            slot = self._slots.slots[self._table.storages[described.storage].index]
            self._initial[described.storage] = slot.initial_bytes().clone().untyped_storage()
        return Constant(described.storage, self._initial[described.storage], described)

    def _storages_of(self, values: list[int]) -> set[int]:
        described = (self._table.values[v] for v in values)
        return {v.storage for v in described if v.kind == ValueKind.tensor}

    def _is_on(self, value: int, storages: set[int]) -> bool:
        described = self._table.values[value]
        return described.kind == ValueKind.tensor and described.storage in storages

    def _is_ephemeral(self, storage: int) -> bool:
        return self._table.storages[storage].kind == StorageKind.ephemeral

    def _constants(self) -> set[int]:
        return {
            number
            for number, storage in enumerate(self._table.storages)
            if storage.kind == StorageKind.persistent
            and self._slots.slots[storage.index].kind == SlotKind.constant
        }


def _read(node: Node) -> list[int]:
    """The values of which the node reads the contents, and not only the layout."""
    return node.reads()[1:] if node.op in LIKE_OPERATORS else node.reads()
