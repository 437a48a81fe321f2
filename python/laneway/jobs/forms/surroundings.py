"""The modes of torch around a call: what eager execution would choose kernels, dtypes or results by
besides the arguments. A call in another mode is another form of call. Not among them: the number of
threads and the float32 precision, which a job keeps as they were at its capture.

All of them are read before every call, so each is read by one function of torch in C, and one
generated function asks for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import _C
from torch.backends import mha

from laneway.jobs.calls.generated import all_of

# torch's own function asks for this, behind a question that is false outside of TorchScript.
_FAST_PATH = "_is_fastpath_enabled"
# Named by what a user calls to set them. The dtype of autocast counts when it is off, too: a step
# may turn it on without naming one.
_OF_GRADIENTS = {
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.inference_mode()": torch.is_inference_mode_enabled,
}
_READS = {
    "torch.autocast": _C._is_any_autocast_enabled,
    "the dtype of torch.autocast": partial(torch.get_autocast_dtype, "cpu"),
    "torch.set_default_dtype()": torch.get_default_dtype,
    "torch.use_deterministic_algorithms()": _C._get_deterministic_algorithms,
    "its warn_only": _C._get_deterministic_algorithms_warn_only,
    "torch.utils.deterministic": _C._get_deterministic_fill_uninitialized_memory,
    "torch.backends.mkldnn": _C._get_mkldnn_enabled,
    "torch.nn.attention.sdpa_kernel (flash)": _C._get_flash_sdp_enabled,
    "torch.nn.attention.sdpa_kernel (math)": _C._get_math_sdp_enabled,
    "torch.nn.attention.sdpa_kernel (efficient)": _C._get_mem_efficient_sdp_enabled,
    "torch.nn.attention.sdpa_kernel (cudnn)": _C._get_cudnn_sdp_enabled,
    "torch.backends.mha.set_fastpath_enabled()": (
        partial(vars(mha).__getitem__, _FAST_PATH)
        if _FAST_PATH in vars(mha)
        else mha.get_fastpath_enabled
    ),
}
# Read where autocast is on for some device.
_OF_AUTOCAST = {
    "torch.autocast('cpu')": partial(torch.is_autocast_enabled, "cpu"),
    "torch.autocast('cuda')": partial(torch.is_autocast_enabled, "cuda"),
    "the dtype of torch.autocast('cuda')": partial(torch.get_autocast_dtype, "cuda"),
}
# Half of it is zero where the processor flushes denormals, which torch can set and not read.
_SMALLEST = 2.2250738585072014e-308


class Surroundings:
    """The modes when this was made, and whether they are so still. Immutable. An inference runs
    without gradients, whatever the mode around its calls."""

    def __init__(self, inference: bool = False) -> None:
        self._names = [*_READS, *({} if inference else _OF_GRADIENTS)]
        self._reads = [*_READS.values(), *({} if inference else _OF_GRADIENTS).values()]
        self._modes = self._now()
        self._hold = self._generated()

    def named(self) -> list[tuple[str, Any]]:
        """Each mode with its name."""
        return list(zip(("torch.set_flush_denormal()", *self._names, *_OF_AUTOCAST), self._modes))

    def difference(self) -> str | None:
        """Which mode is another one now, in words; None when none is."""
        if self._hold() or (now := self._now()) == self._modes:
            return None
        (name, before), given = next(x for x in zip(self.named(), now) if x[0][1] != x[1])
        return f"a mode of torch around the call, {name}, is {given} and was {before}"

    def _now(self, half: float = 0.5) -> list[Any]:
        modes = [_SMALLEST * half == 0.0, *[read() for read in self._reads]]
        if _C._is_any_autocast_enabled():
            modes += [read() for read in _OF_AUTOCAST.values()]
        return modes

    def _generated(self) -> Callable[[], bool]:
        """Whether each mode is the same object, as bools and dtypes are."""
        given: dict[str, Any] = {"smallest": _SMALLEST, "half": 0.5, "flushed": self._modes[0]}
        terms = ["(smallest * half == 0.0) is flushed"]
        for number, mode in enumerate(self._modes[1:]):
            given[f"v{number}"] = mode
            given[f"r{number}"] = [*self._reads, *_OF_AUTOCAST.values()][number]
            terms.append(f"r{number}() is v{number}")
        return all_of(terms, given)
