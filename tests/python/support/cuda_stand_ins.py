"""CUDA's operators computed on a CPU, with the layouts that the CUDA kernels give, so that graphs
captured for CUDA run in a ReferenceJob. Each is written from torch's CPU operators and autograd and
knows nothing of capture."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from support import reference_executor

_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def _with_autograd(function: Callable) -> Callable:
    """The function in a thread of its own: the executor's leaves autograd out."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(function(*args, **kwargs)))
        thread.start()
        thread.join()
        return results[0]

    return run


def _attend(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: Any) -> Any:
    scores = query.double() @ key.double().transpose(-2, -1)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.double()
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, float("-inf"))
    return (scores.softmax(-1) @ value.double()).to(query.dtype), scores.logsumexp(-1)


def _heads_inside(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers on [batch, position, head, element], as the kernel writes them."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def efficient_attention(
    query: Any, key: Any, value: Any, bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: Any = None,
) -> tuple:  # fmt: skip
    assert dropout_p == 0.0
    assert all(t.stride(-1) == 1 and t.shape[-1] % 4 == 0 for t in (query, key, value))
    assert bias is None or bias.shape == (*query.shape[:3], key.shape[2])
    assert bias is None or all(bias.stride(d) % 8 == 0 for d in range(3))
    output, sums = _attend(query, key, value, bias, is_causal, scale)
    rows = math.ceil(query.shape[2] / 32) * 32 if compute_log_sumexp else 0
    kept = torch.full((*query.shape[:2], rows), float("inf"))
    if rows:
        kept[:, :, : query.shape[2]] = sums
    return _heads_inside(output), kept, torch.empty((), dtype=torch.int64), None


@_with_autograd
def efficient_attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, bias: Any, output: Any, log_sumexp: Any,
    seed: Any, offset: Any, dropout_p: float, wanted: list[bool], is_causal: bool = False, *,
    scale: Any = None,
) -> tuple:  # fmt: skip
    assert seed is None
    assert offset is None
    assert log_sumexp.shape[-1] == math.ceil(query.shape[2] / 32) * 32
    given = [t.detach().clone().requires_grad_() for t in (query, key, value)]
    mask = None if bias is None else bias.detach().clone().requires_grad_()
    with torch.enable_grad():
        again, _ = _attend(*given, mask, is_causal, scale)
        sources = given if mask is None else [*given, mask]
        found = torch.autograd.grad(again, sources, gradient)
    of_mask = None
    if mask is not None and wanted[3]:
        length = mask.shape[-1]
        padded = torch.zeros(*mask.shape[:-1], length + (-length) % 16)
        of_mask = padded[..., :length].copy_(found[3])
    return (*map(_heads_inside, found[:3]), of_mask)


def _recurrent(
    given: tuple, weight: list, stride: int, mode: int, layers: int, batch_first: bool, both: bool,
) -> tuple:  # fmt: skip
    has_biases = stride >= 4
    input, hx, cx = given
    states = (hx, cx) if cx is not None else hx
    layer = getattr(torch._VF, _MODES[mode])
    return layer(input, states, weight, has_biases, layers, 0.0, True, both, batch_first)


def cudnn_rnn(
    input: Any, weight: list, stride: int, buffer: Any, hx: Any, cx: Any, mode: int, hidden: int,
    projected: int, layers: int, batch_first: bool, dropout: float, train: bool, both: bool,
    batch_sizes: list, dropout_state: Any,
) -> tuple:  # fmt: skip
    assert buffer is None
    assert dropout == 0.0
    assert dropout_state is None
    assert hx.is_contiguous()
    assert len(weight) == stride * layers * (2 if both else 1)
    with torch.no_grad():
        output, hy, *cy = _recurrent(
            (input, hx, cx), weight, stride, mode, layers, batch_first, both
        )
    if batch_first:
        output = output.transpose(0, 1).contiguous().transpose(0, 1)
    cell = cy[0].contiguous() if cy else hx.new_empty((0,))
    reserved = torch.empty((0,), dtype=torch.uint8)
    return output.contiguous() if not batch_first else output, hy.contiguous(), cell, reserved, (
        weight[0].new_empty((0,))
    )  # fmt: skip


@_with_autograd
def cudnn_rnn_backward(
    input: Any, weight: list, stride: int, buffer: Any, hx: Any, cx: Any, output: Any,
    of_output: Any, of_hy: Any, of_cy: Any, mode: int, hidden: int, projected: int, layers: int,
    batch_first: bool, dropout: float, train: bool, both: bool, batch_sizes: list,
    dropout_state: Any, reserve: Any, wanted: list[bool],
) -> tuple:  # fmt: skip
    assert train
    given = [None if t is None else t.detach().clone().requires_grad_() for t in (input, hx, cx)]
    weights = [w.detach().clone().requires_grad_() for w in weight]
    with torch.enable_grad():
        results = _recurrent(tuple(given), weights, stride, mode, layers, batch_first, both)
        pairs = [(r, g) for r, g in zip(results, (of_output, of_hy, of_cy)) if g is not None]
        sources = [t for t in given if t is not None]
        found = torch.autograd.grad(
            [r for r, _ in pairs], [*sources, *weights], [g for _, g in pairs], allow_unused=True
        )
    found = [torch.zeros_like(s) if f is None else f for f, s in zip(found, [*sources, *weights])]
    first = found[0].transpose(0, 1).contiguous().transpose(0, 1) if batch_first else found[0]
    of_cx = found[2].contiguous() if cx is not None else None
    return first, found[1].contiguous(), of_cx, [f.contiguous() for f in found[len(sources) :]]


STAND_INS = {
    "aten::_scaled_dot_product_efficient_attention": efficient_attention,
    "aten::_scaled_dot_product_efficient_attention_backward": efficient_attention_backward,
    "aten::_cudnn_rnn": cudnn_rnn,
    "aten::_cudnn_rnn_backward": cudnn_rnn_backward,
}


@pytest.fixture
def cuda_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """In such a test a ReferenceJob runs CUDA's operators by their stand-ins."""
    original = reference_executor.resolve
    monkeypatch.setattr(reference_executor, "resolve", lambda op: STAND_INS.get(op) or original(op))
