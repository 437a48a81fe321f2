"""Counts how often a graph that torch.compile made calls its eager code instead of its job."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from laneway.compile.compiled_graph import CompiledGraph


class Fallbacks:
    """Inside, graphs that are made count the calls of their code that are no capture, which runs
    it under a mode."""

    def __init__(self) -> None:
        self.count = 0
        self._made = CompiledGraph.__init__

    def __enter__(self) -> Fallbacks:
        counting, made = self, self._made

        def make(graph: CompiledGraph, code: Any, *args: Any, **kwargs: Any) -> None:
            def counted(*arguments: Any) -> Any:
                if not _get_current_dispatch_mode_stack():
                    counting.count += 1
                return code(*arguments)

            made(graph, counted, *args, **kwargs)

        CompiledGraph.__init__ = make  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        CompiledGraph.__init__ = self._made  # type: ignore[method-assign]
