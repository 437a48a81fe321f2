"""The ten models of the benches: `make(name)` builds one with its loss, optimizer and batches."""

from __future__ import annotations

from functools import partial

import torch

from . import bert, gpt, small, vision
from .workload import FORMS, Workload, optimizer_form

_MAKERS = {
    "mlp": small.mlp,
    "cnn": small.cnn,
    "gpt": gpt.gpt,
    "gpt6": gpt.gpt6,
    "lstm": small.lstm,
    "bert": bert.bert,
    **{name: partial(vision.vision, name) for name in vision.NAMES},
}

NAMES = tuple(_MAKERS)
FIVE = ("mlp", "cnn", "gpt", "lstm", "resnet18")


def make(name: str, seed: int = 0, form: str = "default") -> Workload:
    """The job `name` with the optimizer in `form` (default, foreach or fused).

    The same seed gives the same weights and batches. Torch's default generator is left as it was:
    whoever compares runs seeds it for what the model draws while it trains (dropout)."""
    if name not in _MAKERS:
        raise ValueError(f"no model {name!r}; there are {', '.join(NAMES)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _MAKERS[name](seed, form)


__all__ = ["FIVE", "FORMS", "NAMES", "Workload", "make", "optimizer_form"]
