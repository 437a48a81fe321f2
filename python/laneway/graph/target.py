"""Target: the kernels that will run a graph, the CPU's or CUDA's.

Every capture runs on fake tensors of the CPU, for which torch selects the CPU's operators. A
capture for CUDA must record the operators that eager execution selects on CUDA: cuda_decisions.py
has the decisions that torch takes in Python, cuda_forms.py those that it takes in C++.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from laneway.errors import CaptureError

if TYPE_CHECKING:
    from laneway.graph.graph_ir import Graph


_REMEDIES = {
    "aten::mkldnn_rnn_layer": "recurrent layers run on cuDNN: leave "
    "torch.backends.cudnn.enabled on, and give them inputs of a floating dtype with elements"
}


class Target(enum.Enum):
    """The values are those of Service.kernels."""

    cpu = "cpu"
    cuda = "cuda"

    @property
    def dispatch_key(self) -> str:
        """The name of the kernels in torch's dispatcher."""
        return {"cpu": "CPU", "cuda": "CUDA"}[self.value]

    def check_kernels(self, graph: Graph) -> None:
        """Raises CaptureError, which names operator and line, for an operator without a kernel for
        CUDA in this process's dispatcher, neither of its own nor composed of other operators. Needs
        no device. For the CPU nothing is checked: the operators ran on CPU fakes."""
        if self is Target.cpu:
            return
        for node in graph.nodes:
            if node.op.startswith("aten::") and not _has_kernel(node.op, self.dispatch_key):
                raise CaptureError(
                    "CUDA has no kernel for this operator",
                    operator=node.op,
                    source=node.source or None,
                    remedy=_REMEDIES.get(
                        node.op,
                        "write it with other operators of torch, or run "
                        "the job on a service on the CPU",
                    ),
                )

    def is_composite(self, overload: torch._ops.OpOverload) -> bool:
        """Whether the target runs the operator as a sequence of others. Some operators are
        composite on one device and have a kernel with other bits on another."""
        return _is_composite(overload.name(), self.dispatch_key)


def captured_for() -> Target | None:
    """The target of the capture that this thread runs; None outside a capture."""
    target = getattr(_get_current_dispatch_mode(), "target", None)
    return target if isinstance(target, Target) else None


@functools.cache
def _has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)


@functools.cache
def _is_composite(name: str, key: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, "CompositeImplicitAutograd") and not has(name, key)
