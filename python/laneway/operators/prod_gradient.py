"""The gradient of torch.prod, which eager execution chooses by whether its operand holds zeros.

Without zeros it divides the product by each element; with zeros it multiplies the product of the
elements before an element by the product of those behind it. For fakes torch always takes the
second formula, which rounds differently. Here both are computed, and the step selects by the zeros
in its operand.
"""

from __future__ import annotations

from typing import Any

import torch


def prod(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> torch.Tensor:
    """torch.prod of all elements, or over one dimension; differentiable once."""
    tensor = args[0]
    if not (torch.is_grad_enabled() and tensor.requires_grad and tensor.dim() > 0):
        return overload(*args, **kwargs)
    return _Prod.apply(overload, tensor, args[1:], kwargs)


class _Prod(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        overload: torch._ops.OpOverload,
        tensor: torch.Tensor,
        more: tuple,
        kwargs: dict[str, Any],
    ) -> torch.Tensor:
        result = overload(tensor, *more, **kwargs)
        context.save_for_backward(tensor, result)
        names = [argument.name for argument in overload._schema.arguments][1:]
        named = {**dict(zip(names, more)), **kwargs}
        context.dimension = named.get("dim")
        context.keeps_dimension = named.get("keepdim", False)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, gradient: torch.Tensor) -> tuple:
        tensor, result = context.saved_tensors
        operand = tensor.to(gradient.dtype)
        if context.dimension is None:
            found = _of_everything(gradient, operand, result)
        else:
            if not context.keeps_dimension:
                gradient = gradient.unsqueeze(context.dimension)
                result = result.unsqueeze(context.dimension)
            found = torch.where(
                (operand == 0).any(),
                _around_each(gradient, operand, context.dimension),
                gradient * (result / operand).conj(),
            )
        return None, found.to(tensor.dtype), None, None


def _of_everything(
    gradient: torch.Tensor, operand: torch.Tensor, result: torch.Tensor
) -> torch.Tensor:
    zeros = (operand == 0).sum()
    around = _around_each(gradient, operand.contiguous().view(-1), 0).view_as(operand)
    with_zeros = torch.where(zeros > 1, torch.zeros_like(operand), around)
    return torch.where(zeros == 0, gradient * (result / operand).conj(), with_zeros)


def _around_each(gradient: torch.Tensor, operand: torch.Tensor, dim: int) -> torch.Tensor:
    """For each element the product of all others along `dim`, without a division."""
    count = operand.shape[dim]
    if operand.numel() == 0:
        return torch.zeros_like(operand)
    if count == 1:
        return gradient.expand_as(operand)
    one = torch.ones_like(operand.narrow(dim, 0, 1))
    before = torch.cat([one, operand.narrow(dim, 0, count - 1)], dim).cumprod(dim)
    reversed_rest = operand.narrow(dim, 1, count - 1).flip(dim)
    behind = torch.cat([one, reversed_rest], dim).cumprod(dim).flip(dim)
    return gradient * (before * behind).conj()
