"""Which modules can be captured at all."""

from __future__ import annotations

import torch

from laneway.errors import CaptureError

_DISTRIBUTED = ("DistributedDataParallel", "FullyShardedDataParallel")


def check_module(module: torch.nn.Module) -> None:
    """Raises CaptureError, with the part's name, for a model that no graph can hold."""
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            what = f"{name!r}, a part of the model," if name else "the model"
            raise CaptureError(
                f"{what} is a TorchScript module, whose operators cannot be seen",
                remedy="pass the module that it was scripted or traced from",
            )
        if type(part).__name__ in _DISTRIBUTED:
            raise CaptureError(
                f"the model is wrapped in {type(part).__name__}, whose exchange of gradients "
                "between processes no graph holds",
                remedy="pass the module inside (model.module)",
            )
    # Several models of a step are the children of a list.
    for model in module if isinstance(module, torch.nn.ModuleList) else [module]:
        if hasattr(model, "_orig_mod"):
            raise CaptureError(
                "the model is the result of torch.compile",
                remedy="pass the module that was given to torch.compile",
            )
