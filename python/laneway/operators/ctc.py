"""The CTC loss in a form whose sizes do not depend on the lengths of the targets.

torch's kernel makes a table with the width of the batch's longest target. For lengths that are
tensors the batch gets one more row with a target as long as the tensor of targets allows, so that
the width is known; the row is dropped from the result and has no gradient. Rows do not depend on
each other, so all other rows have eager's bits.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from laneway.errors import CaptureError
from laneway.graph.target import Target, captured_for

aten = torch.ops.aten
_calling = threading.local()  # .longest: the length of the longest target of the present call


class _Loss(torch.autograd.Function):
    """One loss per row."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int,
        zero_infinity: bool,
    ) -> torch.Tensor:
        ctx.constants = (blank, zero_infinity)
        ctx.lengths = (input_lengths, target_lengths)
        ctx.padded = isinstance(target_lengths, torch.Tensor)
        operator = aten._ctc_loss.Tensor if ctx.padded else aten._ctc_loss.default
        longest = targets.size(-1) if ctx.padded else max(target_lengths, default=0)
        if ctx.padded:
            scores = torch.cat([scores, scores[:, :1]], 1)
            row = targets.new_zeros((1, longest) if targets.dim() == 2 else (longest,))
            targets = torch.cat([targets, row])
            more = torch.ones(1, dtype=torch.int64), torch.full((1,), longest)
            ctx.lengths = tuple(torch.cat(pair) for pair in zip(ctx.lengths, more))
        _calling.longest = longest
        try:
            losses, table = operator(scores, targets, *ctx.lengths, blank, zero_infinity)
        finally:
            _calling.longest = None
        ctx.save_for_backward(scores, targets, losses, table)
        return losses[:-1] if ctx.padded else losses

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        scores, targets, losses, table = ctx.saved_tensors
        operator = aten._ctc_loss_backward.default
        if ctx.padded:
            operator = aten._ctc_loss_backward.Tensor
            gradient = torch.cat([gradient, gradient.new_zeros(1)])
        given = (gradient, scores, targets, *ctx.lengths, losses, table, *ctx.constants)
        result = operator(*given)
        result = result[:, :-1].contiguous() if ctx.padded else result
        return result, None, None, None, None, None


def loss(
    plain: Any,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    """torch.ctc_loss, which is `plain`; `reduction` 0 is none, 1 the mean, 2 the sum."""
    given = (targets, input_lengths, target_lengths)
    if not isinstance(log_probs, FakeTensor) or captured_for() is not Target.cpu:
        return plain(log_probs, *given, blank, reduction, zero_infinity)
    scores = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    both = (_lengths(input_lengths), _lengths(target_lengths))
    if isinstance(both[0], list) != isinstance(both[1], list):
        both = tuple(torch.as_tensor(lengths) for lengths in both)
    losses = _Loss.apply(scores, targets.to(torch.int64), *both, blank, zero_infinity)
    if zero_infinity:
        losses = torch.where(losses == math.inf, torch.zeros((), dtype=losses.dtype), losses)
    if reduction == 1:
        return (losses / torch.as_tensor(both[1]).clamp_min(1)).mean()
    if reduction == 2:
        return losses.sum()
    return losses if log_probs.dim() == 3 else losses.squeeze(0)


def _lengths(given: Any) -> Any:
    if isinstance(given, torch.Tensor):
        return given.reshape(-1).to(torch.int64)
    return list(given) if isinstance(given, (list, tuple, torch.Size)) else [given]


def fake(operator: Any, args: tuple) -> Any:
    """The kernel's results on fakes; NotImplemented for another operator. Raises CaptureError for a
    call that does not come from loss()."""
    if operator in (aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor):
        return args[1].new_empty(args[1].shape)
    if operator not in (aten._ctc_loss.default, aten._ctc_loss.Tensor):
        return NotImplemented
    longest = getattr(_calling, "longest", None)
    if longest is None:
        raise CaptureError(
            "the CTC loss has sizes that its lengths decide",
            remedy="call torch.nn.CTCLoss or torch.nn.functional.ctc_loss in a train_step or an "
            "inference of a service on the CPU",
        )
    frames, rows = args[0].shape[:2]
    width = 2 * longest + 1
    return args[0].new_empty(rows), args[0].new_empty((rows, frames, width))
