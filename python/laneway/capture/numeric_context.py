"""Reads torch's process-wide numeric state into a graph's NumericContext."""

from __future__ import annotations

import torch

from laneway.errors import CaptureError
from laneway.graph.graph_ir import DTYPE_OF_TORCH, FLOAT32_USES, NumericContext

_PRECISIONS = {"none": 0, "ieee": 0, "tf32": 1, "bf16": 2}


def current_numeric_context() -> NumericContext:
    """The present process-wide numeric state. Changes nothing that outlasts the call."""
    default = torch.get_default_dtype()
    if default not in DTYPE_OF_TORCH:
        raise CaptureError(
            f"the default dtype {default} has no counterpart in a graph",
            remedy="call torch.set_default_dtype(torch.float32) before the step is captured",
        )
    return NumericContext(
        threads=torch.get_num_threads(),
        mkldnn=bool(torch.backends.mkldnn.enabled),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        flush_denormal=_flushes_denormals(),
        float32=tuple(_precision(*use) for use in FLOAT32_USES),
        default_dtype=DTYPE_OF_TORCH[default],
    )


def _precision(library: str, kind: str) -> int:
    said = _fp32_precision(library, kind)
    if said not in _PRECISIONS:
        raise CaptureError(
            f"the float32 precision {said!r} of {library}'s {kind} has no counterpart in a graph, "
            f"which knows {', '.join(_PRECISIONS)}",
            remedy="set fp32_precision in torch.backends to one of these before the step is "
            "captured",
        )
    return _PRECISIONS[said]


def _fp32_precision(library: str, kind: str) -> str:
    # As it takes effect: an operator's own setting, else its library's, else the generic one. The
    # older torch.get_float32_matmul_precision() raises once somebody has used these.
    backends = torch.backends
    if library == "mkldnn":
        return getattr(backends.mkldnn, kind).fp32_precision
    of = backends.cuda.matmul if kind == "matmul" else getattr(backends.cudnn, kind)
    return of.fp32_precision


def _flushes_denormals() -> bool:
    # torch can set the flag but not read it: halve the smallest normal number to test it.
    smallest = torch.tensor([torch.finfo(torch.float32).tiny], dtype=torch.float32)
    return bool((smallest * 0.5).eq(0).item())
