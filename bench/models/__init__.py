"""The models of the benches: `make(name)` builds one with its loss, optimizer and batches.

Ten (NAMES) that are measured in every way, and one of every family beyond them (FAMILIES)."""

from __future__ import annotations

from functools import partial

import torch

from . import bert, families, gpt, hugging_face, small, vision
from .workload import FORMS, Batch, Workload, arguments, optimizer_form, pool_for

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
_MAKERS |= {name: partial(families.family, name) for name in families.NAMES}
_MAKERS |= {name: partial(hugging_face.hugging_face, name) for name in hugging_face.NAMES}
_MAKERS["gpt_large"] = gpt.gpt_large
FAMILIES = (*vision.NAMES, *families.NAMES, *hugging_face.NAMES)
FIVE = ("mlp", "cnn", "gpt", "lstm", "resnet18")


def make(name: str, seed: int = 0, form: str = "default") -> Workload:
    """The job `name` with the optimizer in `form` (default, foreach or fused).

    The same seed gives the same weights and batches. Torch's default generator is left as it was:
    whoever compares runs seeds it for what the model draws while it trains (dropout)."""
    if name not in _MAKERS:
        raise ValueError(f"no model {name!r}; there are {', '.join(_MAKERS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _MAKERS[name](seed, form)


__all__ = [
    "FAMILIES",
    "FIVE",
    "FORMS",
    "NAMES",
    "Batch",
    "Workload",
    "arguments",
    "make",
    "optimizer_form",
    "pool_for",
]
