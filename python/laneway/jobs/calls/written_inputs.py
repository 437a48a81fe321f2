"""Arguments that a step writes into.

A job works on a copy of its inputs. What it wrote there leaves the graph as further outputs, and a
call puts it into the caller's tensors before it returns, so that they hold what eager execution
would have left in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from laneway.capture.input_gradients import GradientOf
from laneway.errors import InvalidInput


def targets(
    args: tuple, kwargs: dict[str, Any], written: Sequence[int], gradients: Sequence[int] = ()
) -> list[torch.Tensor | GradientOf]:
    """The tensors among a call's arguments at the positions `written`, and the gradients of those
    at `gradients`. Raises InvalidInput when one that is written shares memory with another
    argument, or with itself."""
    tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    for position in written:
        check_apart(tensors[position], f"input {position}", tensors)
    return [tensors[n] for n in written] + [GradientOf(tensors[n]) for n in gradients]


def check_apart(tensor: torch.Tensor, name: str, others: Sequence[torch.Tensor]) -> None:
    """Raises InvalidInput when `tensor`, which a step writes, shares memory with one of `others`,
    itself left out, or has several elements in one place."""
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
        raise InvalidInput(
            f"{name}, which the step writes, has several elements at one place in memory (strides "
            f"{list(tensor.stride())}): pass it with .clone()"
        )
    # The same tensor given twice is another place of it.
    shared = sum(share_memory(tensor, other) for other in others)
    if shared > any(other is tensor for other in others):
        raise InvalidInput(
            f"{name}, which the step writes, shares memory with another argument: a job works on "
            "copies, where a write to one is not seen in the other; pass one of them with .clone()"
        )


def share_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether what lies from the first element of one to its last reaches into the other's."""
    (a_first, a_end), (b_first, b_end) = _extent(a), _extent(b)
    return max(a_first, b_first) < min(a_end, b_end)


def write_back(given: Sequence[torch.Tensor | GradientOf], values: Sequence[torch.Tensor]) -> None:
    """Gives the caller's tensors the values that the step left in its copies."""
    with torch.no_grad():
        for tensor, value in zip(given, values):
            tensor.copy_(value)


def warn_of_submit() -> None:
    """Said of an iteration that is not waited for, whose arguments may be others by its end."""
    warnings.warn(
        "this step writes into tensors that it is given; submit() works on copies, so yours keep "
        "their values: call the step, which waits and writes them, or clone them inside the step",
        RuntimeWarning,
        stacklevel=5,
    )


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and of the byte behind its last."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.numel() == 0:
        return 0, 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    first = tensor.data_ptr()
    return first, first + (steps + 1) * tensor.element_size()
