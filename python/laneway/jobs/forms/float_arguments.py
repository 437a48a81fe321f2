"""FloatArguments: the float arguments of a step or inference that are inputs of its graphs.

A float is a constant of a graph at first. One that another call gives another value (an annealed
weight) becomes an input, so that no further value needs another capture; unless the step's Python
decides by it, makes text of it, or gives it to what takes no number that is not known yet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from torch.utils import _pytree as pytree

from laneway.capture.capture import CapturedJobGraph
from laneway.errors import CaptureError
from laneway.graph.slots import OtherImage

_MOST_STRUCTURES = 8  # of arguments, whose floats are remembered


class FloatArguments:
    """One thread at a time."""

    def __init__(self) -> None:
        self._last: dict[str, list[bytes | None]] = {}  # by structure, the value of each leaf
        self._changed: dict[str, set[int]] = {}  # those that became inputs
        self._constant: dict[str, set[int]] = {}  # those that can't

    def captured(
        self,
        inputs: tuple,
        kwargs: dict[str, Any],
        capture: Callable[[list[int]], CapturedJobGraph],
    ) -> CapturedJobGraph:
        """capture() with the positions of the leaves that are inputs; without them where it raises
        CaptureError."""
        structure, floats = self._seen(inputs, kwargs)
        if not floats:
            return capture([])
        try:
            return capture(floats)
        except OtherImage:
            raise
        except CaptureError:
            self._constant.setdefault(structure, set()).update(floats)
        return capture([])

    def _seen(self, inputs: tuple, kwargs: dict[str, Any]) -> tuple[str, list[int]]:
        """The structure of the arguments, and their leaves that are to be inputs."""
        leaves, of = pytree.tree_flatten((tuple(inputs), dict(kwargs)))
        structure = str(of)
        bits = [struct.pack("<d", leaf) if type(leaf) is float else None for leaf in leaves]
        if not any(bits):
            return structure, []
        last = self._last.pop(structure, bits)
        if len(self._last) >= _MOST_STRUCTURES:
            self._last.pop(next(iter(self._last)))
        self._last[structure] = bits
        changed = self._changed.setdefault(structure, set())
        changed |= {n for n, (a, b) in enumerate(zip(last, bits)) if a != b and a and b}
        constant = self._constant.get(structure, set())
        return structure, [n for n in sorted(changed - constant) if bits[n]]
