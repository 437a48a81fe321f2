"""Makes a compiled graph's results of its job's outputs, with the layouts and the sharing of memory
of eager execution.

A job's outputs are contiguous, each with memory of its own. Eager results may have other strides,
be views of arguments, or share memory with each other, and code after the graph may depend on that.
The plan is made once, while the graph is captured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from laneway.errors import CaptureError


class Unfit(CaptureError):
    """The graph cannot run as a job with eager's results; it runs eagerly instead."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One result: `constant`; or computed[`computed`] or arguments[`argument`] itself; or, with
    `view` = (sizes, strides, offset from the source's first element), a view of it. For an
    argument, `strides` are those at capture: a view is relative to them. `conjugated` and `negated`
    mark a view that is conjugated or negated when it is read."""

    constant: Any = None
    computed: int | None = None
    argument: int | None = None
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None = None
    strides: tuple[int, ...] = ()
    conjugated: bool = False
    negated: bool = False


class ResultPlan:
    """The plan of the results of one form of a graph's calls."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.written: list[int] = []  # positions of the weights that the graph writes

    def put_together(self, computed: Sequence[Any], arguments: Sequence[Any]) -> tuple | None:
        """The results; None when an argument has another layout than its copy in the graph, so that
        a view of it cannot be made."""
        found = []
        for result in self.results:
            if result.computed is not None:
                source = computed[result.computed]
            elif result.argument is not None:
                source = arguments[result.argument]
                if result.view is not None and source.stride() != result.strides:
                    return None
            else:
                found.append(result.constant)
                continue
            if result.view is not None:
                sizes, strides, offset = result.view
                source = source.as_strided(sizes, strides, source.storage_offset() + offset)
            if result.conjugated:
                source = source.conj()
            found.append(torch._neg_view(source) if result.negated else source)
        return tuple(found)


class Planner:
    """Used while a graph is captured: `arguments` and `outputs` are fakes."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._arguments = arguments
        self._by_storage = {
            a.untyped_storage()._cdata: position
            for position, a in reversed(list(enumerate(arguments)))
            if isinstance(a, torch.Tensor)
        }
        self._computed: list[Any] = []
        self._bases: dict[int, int] = {}  # storage -> position among the computed tensors

    def plan(self, outputs: Sequence[Any]) -> tuple[ResultPlan, list[Any]]:
        """The plan, and the tensors that the job must compute for it."""
        plan = ResultPlan()
        uses: dict[int, set[int]] = {}
        for output in outputs:
            if isinstance(output, torch.Tensor):
                uses.setdefault(output.untyped_storage()._cdata, set()).add(id(output))
        for output in outputs:
            if isinstance(output, torch.Tensor):
                shared = len(uses[output.untyped_storage()._cdata]) > 1
                plan.results.append(self._tensor(output, shared))
            elif isinstance(output, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                plan.results.append(self._compute(output))
            else:
                plan.results.append(Result(constant=output))
        return plan, self._computed

    def _tensor(self, output: torch.Tensor, shared: bool) -> Result:
        for position, argument in enumerate(self._arguments):
            if output is argument:
                return Result(argument=position)
        conjugated, negated = output.is_conj(), output.is_neg()
        if conjugated or negated:  # the tensor of which it is a view, unchanged
            output = torch._neg_view(output) if negated else output
            plain = self._plain(output.conj() if conjugated else output, shared)
            return dataclasses.replace(plain, conjugated=conjugated, negated=negated)
        return self._plain(output, shared)

    def _plain(self, output: torch.Tensor, shared: bool) -> Result:
        storage = output.untyped_storage()._cdata
        if storage in self._by_storage:
            return self._view_of_argument(output, self._by_storage[storage])
        if not shared and output.is_contiguous():
            return self._compute(output)
        if not shared and torch.ops.aten.is_non_overlapping_and_dense(output):
            flat = torch.as_strided(output, (output.numel(),), (1,), output.storage_offset())
            return self._compute(flat, (tuple(output.shape), tuple(output.stride()), 0))
        view = (tuple(output.shape), tuple(output.stride()), output.storage_offset())
        if storage not in self._bases:
            length = output.untyped_storage().nbytes() // output.element_size()
            self._bases[storage] = len(self._computed)
            self._computed.append(torch.as_strided(output, (length,), (1,), 0))
        base = self._bases[storage]
        if self._computed[base].dtype != output.dtype:
            raise Unfit("the graph returns the same memory as tensors of two dtypes")
        return Result(computed=base, view=view)

    def _view_of_argument(self, output: torch.Tensor, position: int) -> Result:
        argument = self._arguments[position]
        if argument.dtype != output.dtype:
            raise Unfit(f"the graph returns an argument's memory as {output.dtype}")
        offset = output.storage_offset() - argument.storage_offset()
        view = (tuple(output.shape), tuple(output.stride()), offset)
        return Result(argument=position, view=view, strides=tuple(argument.stride()))

    def _compute(self, output: Any, view: tuple | None = None) -> Result:
        self._computed.append(output)
        return Result(computed=len(self._computed) - 1, view=view)
