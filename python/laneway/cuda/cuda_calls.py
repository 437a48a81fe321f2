"""The treatment of recorded calls that will run on CUDA, beyond that of all calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from laneway.cuda import cuda_attention, cuda_recurrent
from laneway.cuda.cuda_forms import here

aten = torch.ops.aten
_MODE_MAX = 2  # of embedding_bag


class CudaCalls:
    """One per capture for CUDA."""

    def call(
        self, overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]]:
        """The call's arguments, with the device of the capture's tensors in place of CUDA devices.
        Raises CaptureError, without a line, for a call that no graph can hold."""
        cuda_recurrent.check_opaque(overload, args)
        return here(args), {name: here(value) for name, value in kwargs.items()}

    def arguments(self, overload: torch._ops.OpOverload, args: tuple) -> tuple:
        """The call's arguments in the graph."""
        return cuda_attention.arguments_in_graph(overload, args)

    def results(self, overload: torch._ops.OpOverload, results: Any) -> Any:
        """The call's results in the graph."""
        return cuda_attention.results_in_graph(overload, results)

    def fake(self, overload: torch._ops.OpOverload) -> Callable[..., Any] | None:
        """The function that gives the operator's results on fakes, where torch has none, or one
        with the results of a CPU."""
        return _FAKES.get(overload)


def _fake_embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[torch.Tensor, ...]:
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    most = (bags, weight.shape[1]) if mode == _MODE_MAX else (0,)
    return (
        weight.new_empty((bags, weight.shape[1])),
        indices.new_empty(indices.shape),
        indices.new_empty(offsets.shape),
        indices.new_empty(most),
    )


_FAKES: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    **cuda_recurrent.FAKES,
    aten._embedding_bag.default: _fake_embedding_bag,
    aten._embedding_bag_forward_only.default: _fake_embedding_bag,
}
