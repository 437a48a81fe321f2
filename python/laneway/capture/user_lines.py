"""Finds the line of the user's program that an operator comes from.

A forward operator's line is the innermost frame outside torch and laneway. A backward operator has
no frame of the user's; it gets the line of the forward operator whose gradient it computes, found
by autograd's sequence numbers.
"""

from __future__ import annotations

import dis
import os
import sys
from types import CodeType, FrameType
from typing import Any

import torch

_INTERNAL = (
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep + "contextlib.py",
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep + "logging" + os.sep,
)

_GENERATED = (
    "<frozen",
    "<eval_with_key",
    "<torch_package",
    "<attrs generated",
    "<laneway",
    "<__array",
)
_GENERATED_LINES = 3

# Torch's messages when Python code reads the data of a tensor that has none.
_NO_DATA = (
    "tensor subclasses",
    "FakeTensor",
    "Cannot access data pointer",
    "SymFloat",
    "SymInt",
    "SymBool",
    "data is not allocated yet",
)


def wants_data(error: Exception) -> bool:
    """Whether the error comes from reading a fake tensor's data."""
    return isinstance(error, (RuntimeError, TypeError)) and any(s in str(error) for s in _NO_DATA)


def is_raised_by_user(error: BaseException) -> bool:
    """Whether code outside of torch and laneway raised the error itself, or its class is of such
    code; not where an operator failed."""
    top = type(error).__module__.partition(".")[0]
    if top not in ("builtins", "torch", "laneway"):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_internal(trace.tb_frame.f_code):
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def line_of(error: BaseException) -> str:
    """The innermost line of the user's code in an exception's traceback; "" when there is none."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_internal(code):
            found = f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return found


def line_at(frame: FrameType | None) -> str | None:
    """The innermost line of the user's code from this frame on; None when there is none."""
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def is_internal(code: CodeType) -> bool:
    """Whether the code belongs to torch, to laneway or to generated code. A script has no file
    either when it is given by python -c, by standard input or in a notebook's cell."""
    name = code.co_filename
    if name == "<string>":  # methods that dataclasses and named tuples generate
        return code.co_name.startswith("__") and code.co_firstlineno <= _GENERATED_LINES
    return is_internal_file(name)


def is_own(value: Any) -> bool:
    """Whether it is a function of laneway's code."""
    code = getattr(value, "__code__", None)
    return code is not None and is_own_code(code)


def is_own_code(code: CodeType) -> bool:
    """Whether the code is laneway's."""
    return code.co_filename.startswith(_INTERNAL[1])


def is_internal_file(name: str) -> bool:
    """The same for a file."""
    return name.startswith((*_INTERNAL, *_GENERATED))


class UserLines:
    """Answers current(); one per capture, used by one thread."""

    def __init__(self) -> None:
        self._internal_codes: dict[CodeType, bool] = {}
        self._by_sequence: dict[int, str] = {}

    def current(self, of_operator: bool = True) -> str:
        """The line that the operator being dispatched belongs to, "train.py:42 in forward"; "" when
        there is none. `of_operator` must be False when no operator is being dispatched."""
        backward = torch._C._current_autograd_node()
        if backward is not None:
            line = self._by_sequence.get(backward._sequence_nr())
            if line is not None:
                return line
        line = self._innermost()
        # The operator of an autograd node is the first that is dispatched after the node was made.
        if of_operator:
            self._by_sequence.setdefault(torch._C._autograd._get_sequence_nr() - 1, line)
        return line

    def _innermost(self) -> str:
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            internal = self._internal_codes.get(code)
            if internal is None:
                internal = is_internal(code)
                self._internal_codes[code] = internal
            if not internal:
                return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
            frame = frame.f_back
        return ""
