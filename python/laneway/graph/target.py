"""Target: whose kernels will run a graph, which decides what a capture records.

A capture runs on CPU fakes whatever the target is, so without one torch picks what it would pick on
a CPU. For a service on CUDA it must record what eager execution picks there: see cuda_decisions.py
for what torch decides in Python, and cuda_forms.py for what it decides in C++.
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
    """The value is what Service.kernels answers."""

    cpu = "cpu"
    cuda = "cuda"

    @property
    def dispatch_key(self) -> str:
        """The dispatcher's name of the kernels."""
        return {"cpu": "CPU", "cuda": "CUDA"}[self.value]

    def check_kernels(self, graph: Graph) -> None:
        """Raises CaptureError, naming operator and line, for an operator of which the dispatcher of
        this process knows no kernel for CUDA, neither its own nor one made of other operators. No
        device is needed to ask. The CPU's operators ran on fakes of the CPU's."""
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
        """Whether the target runs the operator as a sequence of others. Some have such a form for
        other devices and a kernel of their own on this one, with other bits."""
        return _is_composite(overload.name(), self.dispatch_key)


def captured_for() -> Target | None:
    """Whom this thread captures for just now; None when it does not."""
    target = getattr(_get_current_dispatch_mode(), "target", None)
    return target if isinstance(target, Target) else None


@functools.cache
def _has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)


@functools.cache
def _is_composite(name: str, key: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, "CompositeImplicitAutograd") and not has(name, key)
