"""Recurrent layers on CUDA: cuDNN's operator for all layers, directions and time steps.

The operator copies its weights into one buffer in every call, because a job's parameters are
separate slots. Its dropout between layers would draw from a state that graphs do not have, so with
dropout each layer is a call of its own, with torch's dropout between them.

Only cuDNN knows the size of two of its results (the reserve for its backward, and the buffer of the
weights), when it runs. In the graph they have no elements; the service accepts any size, and lets
only the backward of the same call read them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch

from laneway.errors import CaptureError

aten = torch.ops.aten
CUDNN = aten._cudnn_rnn.default
CUDNN_BACKWARD = aten._cudnn_rnn_backward.default

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_OPAQUE = "_laneway_opaque"  # attribute of a fake with a size that only cuDNN knows


class _Mode(enum.IntEnum):
    """The numbers of cuDNN's modes."""

    relu = 0
    tanh = 1
    lstm = 2
    gru = 3


def lstm(
    overload: torch._ops.OpOverload,
    input: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    """lstm.input, as CUDA has it."""
    if not _takes(input) or len(hx) != 2:
        return overload(input, hx, params, *options)
    return _run(_Mode.lstm, input, hx[0], hx[1], params, *options)


def gru(overload: torch._ops.OpOverload, *args: Any) -> tuple[torch.Tensor, ...]:
    """gru.input, as CUDA has it."""
    return _without_cell(_Mode.gru, overload, *args)


def rnn_tanh(overload: torch._ops.OpOverload, *args: Any) -> tuple[torch.Tensor, ...]:
    """rnn_tanh.input, as CUDA has it."""
    return _without_cell(_Mode.tanh, overload, *args)


def rnn_relu(overload: torch._ops.OpOverload, *args: Any) -> tuple[torch.Tensor, ...]:
    """rnn_relu.input, as CUDA has it."""
    return _without_cell(_Mode.relu, overload, *args)


def _without_cell(
    mode: _Mode,
    overload: torch._ops.OpOverload,
    input: torch.Tensor,
    hx: torch.Tensor,
    params: Sequence[torch.Tensor],
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    if not _takes(input):
        return overload(input, hx, params, *options)
    return _run(mode, input, hx, None, params, *options)[:2]


def _takes(input: torch.Tensor) -> bool:
    return torch.backends.cudnn.enabled and input.dtype in _DTYPES and input.numel() > 0


def _run(
    mode: _Mode,
    input: torch.Tensor,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    hidden, projected = hx.shape[2], 0
    if cx is not None and cx.shape[2] != hx.shape[2]:
        hidden, projected = cx.shape[2], hx.shape[2]
    stride = (4 if has_biases else 2) + (1 if projected else 0)

    def layers(input: torch.Tensor, first: int, count: int) -> tuple[torch.Tensor, ...]:
        rows = slice(first * directions, (first + count) * directions)
        return CUDNN(
            input,
            params[rows.start * stride : rows.stop * stride],
            stride,
            None,
            hx[rows],
            None if cx is None else cx[rows],
            int(mode),
            hidden,
            projected,
            count,
            batch_first,
            0.0,
            train,
            bidirectional,
            [],
            None,
        )

    directions = 2 if bidirectional else 1
    if not train or dropout == 0.0 or num_layers == 1:
        return layers(input, 0, num_layers)[:3]
    states = []
    for layer in range(num_layers):
        input, *state = layers(
            input if layer == 0 else torch.dropout(input, dropout, True), layer, 1
        )
        states.append(state)
    return input, torch.cat([s[0] for s in states]), torch.cat([s[1] for s in states])


def fake_forward(*args: Any) -> tuple[torch.Tensor, ...]:
    """The operator's results on fakes, with the layouts of the real ones; its own fake form gives
    other strides for batch_first, and no buffer."""
    input, weight, _, _, hx, cx, _, hidden, projected, layers, batch_first = args[:11]
    directions = 2 if args[13] else 1
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    output = input.new_empty((steps, batch, (projected or hidden) * directions))
    hy = hx.new_empty((layers * directions, batch, projected or hidden))
    cy = hx.new_empty((0,)) if cx is None else cx.new_empty((layers * directions, batch, hidden))
    reserve = input.new_empty((0,), dtype=torch.uint8)
    buffer = weight[0].new_empty((0,))
    for opaque in (reserve, buffer):
        opaque.__dict__[_OPAQUE] = True
    return output.transpose(0, 1) if batch_first else output, hy, cy, reserve, buffer


def fake_backward(*args: Any) -> tuple[Any, ...]:
    """The same for the backward operator, which has no fake form. Raises CaptureError for a layer
    in evaluation mode, which has no reserve."""
    input, weight, _, _, hx, cx, *_ = args
    batch_first, train, wanted = args[14], args[16], args[-1]
    if not train:
        raise CaptureError(
            "the backward pass of a recurrent layer in evaluation mode does not exist on CUDA",
            remedy="call train() on the layer, or run it under torch.no_grad()",
        )
    given = input.transpose(0, 1) if batch_first else input
    gradient = input.new_empty(given.shape)
    weights = [w.new_empty(w.shape) for w in weight] if wanted[3] else []
    return (
        gradient.transpose(0, 1) if batch_first else gradient,
        hx.new_empty(hx.shape),
        None if cx is None else cx.new_empty(cx.shape),
        weights,
    )


def check_opaque(overload: torch._ops.OpOverload, args: tuple) -> None:
    """Raises CaptureError, without a line, for an operator that reads a result that only the
    backward of a recurrent layer understands."""
    if overload is CUDNN_BACKWARD:
        return
    if any(isinstance(a, torch.Tensor) and a.__dict__.get(_OPAQUE) for a in args):
        raise CaptureError(
            "the backward pass through a recurrent layer is kept for another one",
            remedy="call backward() once, without retain_graph=True",
        )


FAKES = {CUDNN: fake_forward, CUDNN_BACKWARD: fake_backward}
