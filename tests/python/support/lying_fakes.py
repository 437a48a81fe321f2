"""Fake kernels that say something else than the CPU's kernels do. Torch's own are wrong about some
operators, which ones depends on its version; here a test makes those wrong that it asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
# What lying_about() makes wrong where torch's own fakes are right.
LIARS = (
    aten._fft_r2c.default,
    aten.max_pool2d_with_indices.default,
    aten.reflection_pad2d.default,
    aten.replication_pad2d.default,
)


class Called(TorchDispatchMode):
    """Notes the operators that run, and those of which a fake has other strides than the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[torch._ops.OpOverload] = set()
        self.wrong: set[torch._ops.OpOverload] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with FakeTensorMode() as mode:
            taken = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs or {}))
            fake = func(*taken[0], **taken[1])
        real = func(*args, **(kwargs or {}))
        self.operators.add(func)
        if _strides(real) != _strides(fake):
            self.wrong.add(func)
        return real


def _strides(result: Any) -> list[tuple[int, ...]]:
    return [leaf.stride() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


@contextmanager
def lying_about(code: Callable[..., Any], *inputs: torch.Tensor) -> Iterator[None]:
    """Inside, fakes are wrong about the layout of a result in `code`."""
    with torch.no_grad(), Called() as called:
        code(*inputs)
    liars = [] if called.wrong else [liar for liar in LIARS if liar in called.operators]
    assert called.wrong or liars, f"no operator to lie about among {called.operators}"
    with ExitStack() as stack:
        for liar in liars:
            stack.enter_context(_in_place_of(liar, _Turned()))
        yield


@contextmanager
def refusing(operator: torch._ops.OpOverload) -> Iterator[None]:
    """Inside, the operator's fake refuses every call, in the words that torch has for a view."""

    def refuse(mode: FakeTensorMode, func: torch._ops.OpOverload, *_: Any, **__: Any) -> Any:
        raise ValueError(f"Cannot view a tensor: {func}")

    with _in_place_of(operator, refuse):
        yield


@contextmanager
def _in_place_of(operator: torch._ops.OpOverload, fake: Callable[..., Any]) -> Iterator[None]:
    """`fake` answers for the operator; it gives NotImplemented where torch's own has to."""
    before = fake_impls.op_implementations_dict.get(operator)
    _answer(operator, fake)
    try:
        yield
    finally:
        _answer(operator, before)


def _answer(operator: torch._ops.OpOverload, fake: Callable[..., Any] | None) -> None:
    """`fake` answers for the operator from now on; None: torch's own kernel."""
    fake_impls._deregister_op_impl(operator)
    if fake is not None:
        fake_impls.register_op_impl(operator)(fake)
    FakeTensorMode.cache_clear()  # of answers that were given before


class _Turned:
    """What torch's own fake gives, in another layout: row-major, or column-major where it is that
    already. Used by one thread."""

    def __init__(self) -> None:
        self._asks = False

    def __call__(
        self, mode: FakeTensorMode, func: torch._ops.OpOverload, *args: Any, **kwargs: Any
    ) -> Any:
        if self._asks:
            return NotImplemented
        self._asks = True
        try:
            with mode:
                return tree_map_only(torch.Tensor, _turned, func(*args, **kwargs))
        finally:
            self._asks = False


def _turned(result: torch.Tensor) -> torch.Tensor:
    order = range(result.dim()) if not result.is_contiguous() else range(result.dim())[::-1]
    strides, step = [0] * result.dim(), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(result.size(dim), 1)
    return result.new_empty_strided(result.shape, strides)
