"""Makes the decisions that torch takes in C++ by a tensor's device as for CUDA.

Attention and recurrent layers are composite operators: their C++ code chooses the parts by the
device of its arguments, above autograd, and for the CPU fakes of a capture it would choose the
CPU's. So inside `as_on_cuda` the capturing thread has a key of its own (thread_key.py), and the
kernels registered here for that key choose the parts that CUDA would run.

The same key applies CUDA's autocast (see cuda_autocast.py), and ignores moves to "cuda": every
tensor of a capture is on the device of its job.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from laneway.cuda import cuda_attention, cuda_autocast, cuda_recurrent
from laneway.operators.thread_key import Form, ThreadKey


def as_on_cuda() -> contextlib.AbstractContextManager[None]:
    """Inside, composite operators of this thread are decomposed as for CUDA tensors."""
    return _key.included()


def _stay(overload: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """A move to a CUDA device: returns the tensor as it is."""
    return overload(*here(args), **{name: here(value) for name, value in kwargs.items()})


def here(value: Any) -> Any:
    """A call's argument or arguments, with the device of the capture's tensors in place of a CUDA
    device."""
    if isinstance(value, tuple):
        return tuple(map(here, value))
    is_cuda = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_cuda else value


def _forms() -> dict[str, Form]:
    return {
        "to.device": _stay,
        "to.dtype_layout": _stay,
        **dict(cuda_autocast.forms()),
        "scaled_dot_product_attention": cuda_autocast.lowered(cuda_attention.attention),
        "lstm.input": cuda_autocast.lowered(cuda_recurrent.lstm),
        "gru.input": cuda_autocast.lowered(cuda_recurrent.gru),
        "rnn_tanh.input": cuda_autocast.lowered(cuda_recurrent.rnn_tanh),
        "rnn_relu.input": cuda_autocast.lowered(cuda_recurrent.rnn_relu),
    }


_key = ThreadKey("AutocastIPU", _forms)
