"""Python numbers that a step computes, recorded as nodes "scalar::…" over number values.

An optimizer in its default form reads its step count into a Python float and computes with it in
Python: 1 - beta ** step. A learning rate changes between iterations. Both must stay values of the
graph. Torch wraps a ScalarNode into a SymFloat, SymInt or SymBool: every arithmetic operation on it
is recorded instead of computed. Where a number itself is needed (a branch, a conversion, a shape),
it must be known before the step runs (known_numbers.py), or the step is refused with the user's
line.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx.experimental.sym_node

from laneway.errors import CaptureError
from laneway.graph.graph_ir import Argument, ValueArgument, ValueKind
from laneway.operators import refusal_words

# (operator, operands, kind of the result) -> index of the result's value
Record = Callable[[str, list, ValueKind], int]
# operands, the function of them (None: the only operand itself) -> its value in every iteration of
# the graph, None when that is not known
Known = Callable[[tuple[Argument, ...], Callable[..., Any] | None], "bool | int | float | None"]

# The Python function of each operator of number nodes.
SCALAR_OPERATORS = {
    "scalar::add": operator.add,
    "scalar::sub": operator.sub,
    "scalar::mul": operator.mul,
    "scalar::div": operator.truediv,
    "scalar::pow": operator.pow,
    "scalar::min": min,
    "scalar::max": max,
    "scalar::neg": operator.neg,
    "scalar::sqrt": math.sqrt,
}
# The types of Python numbers that a capture does not know.
SYMBOLS = (torch.SymFloat, torch.SymInt, torch.SymBool)
_SCALAR_DATA_REMEDY = (
    "keep the decision in tensors (torch.where, multiplication by a mask) or take it outside the "
    "step"
)


class ScalarNode:
    """One number of the graph: a value index, or a constant that is an operand together with
    one."""

    def __init__(
        self,
        record: Record,
        refuse: Callable[[str, str], CaptureError],
        known: Known,
        kind: ValueKind,
        value: int | None = None,
        literal: int | float | bool | None = None,
        origin: str = "a tensor's value",
    ) -> None:
        self._record = record
        self._refuse = refuse
        self._known = known
        self._compared: Callable[[], bool | None] | None = None
        self.kind = kind
        self.value = value
        self.literal = literal
        self.origin = origin

    def argument(self) -> Argument:
        """This number as an argument of a node."""
        return self.literal if self.value is None else ValueArgument(self.value)

    def symbol(self) -> Any:
        """The object that user code sees in place of a Python number."""
        if self.kind == ValueKind.real:
            return torch.SymFloat(self)
        return torch.SymInt(self) if self.kind == ValueKind.integer else torch.SymBool(self)

    # Attributes and methods that torch requires of a node.
    def is_int(self) -> bool:
        return self.kind == ValueKind.integer

    def is_float(self) -> bool:
        return self.kind == ValueKind.real

    def is_bool(self) -> bool:
        return self.kind == ValueKind.boolean

    def is_constant(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def constant_int(self) -> None:
        return None

    def constant_bool(self) -> None:
        return None

    def maybe_as_int(self) -> None:
        return None

    def maybe_as_float(self) -> None:
        return None

    def maybe_as_bool(self) -> None:
        return None

    def has_hint(self) -> bool:
        return False

    def clone(self) -> ScalarNode:
        return self

    def __str__(self) -> str:
        return f"<number from {self.origin}>"

    def str(self) -> str:
        """The text that user code sees."""
        known = self.number()
        if known is not None:
            return repr(known)
        if torch._C._len_torch_dispatch_stack() == 0:  # the step is over
            return str(self)
        raise self._refuse(refusal_words.text_of(self.origin), refusal_words.OF_TEXT)

    def _graph_repr(self) -> str:
        return self.str()

    def wrap_int(self, number: int) -> ScalarNode:
        return self._literal(ValueKind.integer, number)

    def wrap_float(self, number: float) -> ScalarNode:
        return self._literal(ValueKind.real, number)

    def wrap_bool(self, truth: bool) -> ScalarNode:
        return self._literal(ValueKind.boolean, truth)

    # Arithmetic: Python's rules for the kind of the result.
    def add(self, other: ScalarNode) -> ScalarNode:
        return self._arithmetic("scalar::add", other)

    def sub(self, other: ScalarNode) -> ScalarNode:
        return self._arithmetic("scalar::sub", other)

    def mul(self, other: ScalarNode) -> ScalarNode:
        return self._arithmetic("scalar::mul", other)

    def truediv(self, other: ScalarNode) -> ScalarNode:
        return self._make("scalar::div", [self, other], ValueKind.real)

    float_truediv = truediv
    int_truediv = truediv

    def float_pow(self, other: ScalarNode) -> ScalarNode:
        return self._make("scalar::pow", [self, other], ValueKind.real)

    pow = float_pow

    def sym_min(self, other: ScalarNode) -> ScalarNode:
        return self._arithmetic("scalar::min", other)

    def sym_max(self, other: ScalarNode) -> ScalarNode:
        return self._arithmetic("scalar::max", other)

    def neg(self) -> ScalarNode:
        return self._make("scalar::neg", [self], self.kind)

    def sqrt(self) -> ScalarNode:
        return self._make("scalar::sqrt", [self], ValueKind.real)

    sym_sqrt = sqrt
    _sym_sqrt = sqrt

    def sym_float(self) -> ScalarNode:
        if self.kind == ValueKind.real:
            return self
        if self.value is None:
            return self._literal(ValueKind.real, float(self.literal))
        return self._make("scalar::add", [self, self._literal(ValueKind.real, 0.0)], ValueKind.real)

    def ge(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.ge, other)

    def eq(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.eq, other)

    def ne(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.ne, other)

    def gt(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.gt, other)

    def lt(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.lt, other)

    def le(self, other: ScalarNode) -> ScalarNode:
        return self._comparison(operator.le, other)

    def expect_true(self, file: str, line: int) -> bool:
        """Answers torch's check that the base of a power is not negative; a negative base gives
        NaN."""
        return True

    # Operations that need the number itself.
    def guard_int(self, file: str, line: int) -> int:
        return self.int_()

    def guard_float(self, file: str, line: int) -> float:
        return float(self._number("a float"))

    def guard_bool(self, file: str, line: int) -> bool:
        return self.bool_()

    guard_or_true = guard_or_false = guard_size_oblivious = guard_bool
    statically_known_true = guard_bool

    def bool_(self) -> bool:
        if self.kind == ValueKind.boolean or self.value is None:
            return bool(self._number("a bool"))
        # Only the truth value is asked for, because the step depends on it alone and not on the
        # number.
        return self._wanted("a bool", self._known((self.argument(), 0), operator.ne))

    def int_(self) -> int:
        return int(self._number("an int"))

    def number(self) -> bool | int | float | None:
        """The number itself where it is the same in every iteration."""
        if self._compared is not None:
            return self._compared()
        return self.literal if self.value is None else self._known((self.argument(),), None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        place = refusal_words.of_place(name)
        if place is not None:
            raise self._refuse(f"the step {place[0]} {self.origin}", place[1])
        raise self._refuse(
            f"the step computes {name.strip('_')} of {self.origin} in Python",
            "use add, sub, mul, div, pow, min, max, neg, sqrt, or compute it with tensor operators",
        )

    def _number(self, wanted: str) -> bool | int | float:
        return self._wanted(wanted, self.number())

    def _wanted(self, wanted: str, number: Any) -> Any:
        if number is None:
            raise self._refuse(
                f"the step needs {wanted} out of {self.origin} to go on, which is only known when "
                "it runs",
                refusal_words.of_decision(_SCALAR_DATA_REMEDY),
            )
        return number

    def _comparison(self, holds: Callable[[Any, Any], bool], other: ScalarNode) -> ScalarNode:
        # Computed when it is used: torch makes comparisons that it then ignores.
        def compared() -> bool | None:
            operands = (self, other)
            plain = [o.argument() for o in operands if o._compared is None]
            if len(plain) == 2 and any(o.value is not None for o in operands):
                return self._known(tuple(plain), holds)
            numbers = (self.number(), other.number())
            return None if None in numbers else holds(*numbers)

        made = self._literal(ValueKind.boolean, None)
        made._compared = compared
        return made

    def _arithmetic(self, op: str, other: ScalarNode) -> ScalarNode:
        real = ValueKind.real in (self.kind, other.kind)
        return self._make(op, [self, other], ValueKind.real if real else ValueKind.integer)

    def _make(self, op: str, operands: list[ScalarNode], kind: ValueKind) -> ScalarNode:
        value = self._record(op, [operand.argument() for operand in operands], kind)
        origin = next((o.origin for o in operands if o.value is not None), self.origin)
        return ScalarNode(self._record, self._refuse, self._known, kind, value, origin=origin)

    def _literal(self, kind: ValueKind, literal: int | float | bool | None) -> ScalarNode:
        return ScalarNode(self._record, self._refuse, self._known, kind, None, literal, self.origin)
