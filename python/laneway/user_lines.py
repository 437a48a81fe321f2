"""Which line of the user's program an operator comes from.

A forward operator's line is the innermost frame outside torch and laneway. A backward operator has
no frame of the user's; it gets the line of the forward operator whose gradient it computes, found by
autograd's sequence numbers.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

import torch

_INTERNAL = (
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep + "contextlib.py",
)


class UserLines:
    """Answers current(); one per capture, used by one thread."""

    def __init__(self) -> None:
        self._internal_codes: dict[CodeType, bool] = {}
        self._by_sequence: dict[int, str] = {}

    def current(self) -> str:
        """The line that the operator being dispatched belongs to, "train.py:42 in forward"; "" when
        there is none."""
        backward = torch._C._current_autograd_node()
        if backward is not None:
            line = self._by_sequence.get(backward._sequence_nr())
            if line is not None:
                return line
        line = self._innermost()
        # The operator that an autograd node stands for is the first one dispatched after its making.
        self._by_sequence.setdefault(torch._C._autograd._get_sequence_nr() - 1, line)
        return line

    def _innermost(self) -> str:
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            internal = self._internal_codes.get(code)
            if internal is None:
                name = code.co_filename
                internal = name.startswith(_INTERNAL) or name.startswith("<")
                self._internal_codes[code] = internal
            if not internal:
                return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
            frame = frame.f_back
        return ""
