"""Guards on the values of inputs: the numbers that a capture read from its inputs in Python, and
the check that later calls give the same.

A Program has recorded nodes, which run on real tensors outside of any graph, and questions about
their numbers. Guards have a Program over the inputs of a call, and the answers at capture. Neither
writes to its inputs.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.graph.graph_ir import (
    NO_VALUE,
    TORCH_OF_DTYPE,
    TORCH_OF_FORMAT,
    Argument,
    DeviceArgument,
    DType,
    LayoutArgument,
    MemoryFormat,
    Node,
    Value,
    ValueArgument,
    collect_values,
)
from laneway.operators.scalars import SCALAR_OPERATORS

Number = bool | int | float

# They use the layout of their first argument, and not its contents.
LIKE_OPERATORS = frozenset(
    {
        "aten::empty_like",
        "aten::full_like",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::new_full",
        "aten::new_ones",
        "aten::new_zeros",
        "aten::ones_like",
        "aten::zeros_like",
    }
)
# Autocast has been applied to the recorded operators already; it must not be applied again.
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about numbers of a step: the value of the only operand, or of
    compute(*operands)."""

    operands: tuple[Argument, ...]
    compute: Callable[..., Number] | None = None

    def values(self) -> list[int]:
        found: list[int] = []
        collect_values(list(self.operands), found)
        return found


@dataclasses.dataclass(frozen=True)
class Constant:
    """Bytes that are the same in every iteration."""

    storage: int
    initial: torch.UntypedStorage
    described: Value

    def tensor(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """The constant as a tensor over `storage`."""
        value = self.described
        tensor = torch.empty(0, dtype=TORCH_OF_DTYPE[value.dtype])
        return tensor.set_(storage, value.storage_offset, value.sizes, value.strides)


@dataclasses.dataclass(frozen=True)
class Origins:
    """The values with which a program starts: inputs (by position), constants, and tensors of which
    only the layout counts. `written` are the inputs and constants that the program writes."""

    inputs: dict[int, int]
    constants: dict[int, Constant]
    blanks: dict[int, Value]
    written: set[int]


@dataclasses.dataclass(frozen=True)
class _Register:
    index: int


@dataclasses.dataclass(frozen=True)
class _Ask:
    operands: list[Any]
    compute: Callable[..., Number] | None
    source: str


@dataclasses.dataclass(frozen=True)
class _Step:
    call: Callable[..., Any]
    positional: list[Any]
    named: dict[str, Any]
    nested: bool  # lists among the arguments
    single: int | None  # the register of the only result, if it is a tensor or number
    results: list[tuple[bool, list[int]]]  # else: by result, is it a list, its registers


class Program:
    """Thread-safe."""

    def __init__(self, nodes: list[Node], questions: list[Question], origins: Origins) -> None:
        self._origins = origins
        self._registers: list[Any] = []
        self._register_of: dict[int, int] = {}
        self._inputs = [
            (self._register(value), position, value in origins.written)
            for value, position in origins.inputs.items()
        ]
        self._written_constants: list[tuple[int, Constant]] = []
        for value, constant in origins.constants.items():
            register = self._register(value)
            if value in origins.written:
                self._written_constants.append((register, constant))
            else:
                self._registers[register] = constant.tensor(constant.initial)
        self._steps: list[_Step | _Ask] = []
        made = {v: i for i, n in enumerate(nodes) for r in n.results for v in r.values}
        after = [(max(made[v] for v in q.values()), q) for q in questions]
        self.sources: list[str] = []  # where each question's number is read, in the order asked
        for index, node in enumerate(nodes):
            self._steps.append(self._step(node))
            self._steps += [self._ask(q, node.source) for last, q in after if last == index]

    def answers(
        self, inputs: Sequence[torch.Tensor], expected: Sequence[bytes | int] | None = None
    ) -> list[Number]:
        """Answers to the questions, in the order of `sources`; with `expected` (see exactly()) up
        to the first answer that differs. Raises what the operators raise."""
        if torch._C._len_torch_dispatch_stack():
            with _disable_current_modes():
                return self._run(inputs, expected)
        return self._run(inputs, expected)

    def _run(
        self, inputs: Sequence[torch.Tensor], expected: Sequence[bytes | int] | None
    ) -> list[Number]:
        registers = list(self._registers)
        found: list[Number] = []
        with (
            torch._C._AutoDispatchBelowADInplaceOrView(),
            torch._C._ExcludeDispatchKeyGuard(_AUTOCAST),
        ):
            for register, position, written in self._inputs:
                tensor = inputs[position]
                registers[register] = tensor.clone() if written else tensor
            copies: dict[int, torch.UntypedStorage] = {}
            for register, constant in self._written_constants:
                if constant.storage not in copies:
                    copies[constant.storage] = constant.initial.clone()
                registers[register] = constant.tensor(copies[constant.storage])
            for step in self._steps:
                if type(step) is _Step:
                    _take(step, registers)
                    continue
                operands = [_filled(o, registers) for o in step.operands]
                found.append(operands[0] if step.compute is None else step.compute(*operands))
                if expected is not None and exactly(found[-1]) != expected[len(found) - 1]:
                    break
        return found

    def _register(self, value: int) -> int:
        if value == NO_VALUE:  # a tensor that is not used later may be overwritten
            value = -1
        if value not in self._register_of:
            self._register_of[value] = len(self._registers)
            self._registers.append(None)
        return self._register_of[value]

    def _step(self, node: Node) -> _Step:
        positional = [self._template(a) for name, a in node.arguments if not name]
        named = {name: self._template(a) for name, a in node.arguments if name}
        if node.op in LIKE_OPERATORS:
            value = node.arguments[0][1].value
            positional[0] = _Register(len(self._registers))
            self._registers.append(None)
            self._steps.append(_blank(positional[0].index, self._origins.blanks[value]))
        results = [(r.is_list, [self._register(v) for v in r.values]) for r in node.results]
        single = results[0][1][0] if len(results) == 1 and not results[0][0] else None
        nested = any(isinstance(a, list) for a in (*positional, *named.values()))
        call = operator_of(node.op)
        assert call is not None, "asked before"
        return _Step(call, positional, named, nested, single, results)

    def _ask(self, question: Question, source: str) -> _Ask:
        self.sources.append(source)
        return _Ask([self._template(o) for o in question.operands], question.compute, source)

    def _template(self, argument: Argument) -> Any:
        if isinstance(argument, ValueArgument):
            return None if argument.value == NO_VALUE else _Register(self._register(argument.value))
        if isinstance(argument, list):
            return [self._template(element) for element in argument]
        if isinstance(argument, DType):
            return TORCH_OF_DTYPE[argument]
        if isinstance(argument, MemoryFormat):
            return TORCH_OF_FORMAT[argument]
        if isinstance(argument, LayoutArgument):
            return torch.strided
        return torch.device("cpu") if isinstance(argument, DeviceArgument) else argument


class Guards:
    """A program and its answers at capture. Thread-safe."""

    def __init__(self, program: Program, inputs: Sequence[torch.Tensor]) -> None:
        self._program = program
        self._answers = program.answers(inputs)
        self._expected = [exactly(answer) for answer in self._answers]

    def difference(self, inputs: Sequence[torch.Tensor]) -> str | None:
        """The first answer that differs for these inputs, in words; None when all agree. Requires:
        the inputs have the layout that the graph takes."""
        try:
            found = self._program.answers(inputs, self._expected)
        except Exception as error:  # eager execution would raise it when it reads the number
            return f"reading what it decides by raises {type(error).__name__}"
        last = len(found) - 1
        if exactly(found[last]) == self._expected[last]:
            return None
        return (
            f"what it reads from its inputs at {self._program.sources[last] or 'an unknown line'} "
            f"is {found[last]} and was {self._answers[last]}"
        )


def exactly(number: Number) -> bytes | int:
    """A key that is equal for two numbers of one type if no computation can distinguish them."""
    return struct.pack("<d", number) if type(number) is float else number


def operator_of(name: str) -> Callable[..., Any] | None:
    """The function that runs nodes of this name; None when there is none."""
    if name in SCALAR_OPERATORS:
        return SCALAR_OPERATORS[name]
    namespace, _, rest = name.partition("::")
    family, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), family, None)
    return getattr(packet, overload or "default", None)


def _blank(register: int, value: Value) -> _Step:
    """A step that makes a tensor with the layout of `value` and any contents."""
    layout = [value.sizes, value.strides]
    dtype = {"dtype": TORCH_OF_DTYPE[value.dtype]}
    return _Step(torch.empty_strided, layout, dtype, False, register, [])


def _take(step: _Step, registers: list[Any]) -> None:
    if step.nested:
        positional = [_filled(a, registers) for a in step.positional]
    else:
        positional = [registers[a.index] if type(a) is _Register else a for a in step.positional]
    named = {name: _filled(a, registers) for name, a in step.named.items()}
    result = step.call(*positional, **named)
    if step.single is not None:
        registers[step.single] = result
        return
    parts = result if isinstance(result, tuple) else (result,)
    for (is_list, places), part in zip(step.results, parts):
        for place, element in zip(places, part if is_list else [part]):
            registers[place] = element


def _filled(argument: Any, registers: list[Any]) -> Any:
    if type(argument) is _Register:
        return registers[argument.index]
    if isinstance(argument, list):
        return [_filled(element, registers) for element in argument]
    return argument
