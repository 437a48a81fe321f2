"""The remedies of refusals that need words of their own: by operator, and by the function of torch
that made a decision for the user."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch

MASKED = (
    "its result's shape depends on data: keep the shape and mask, torch.where(mask, x, 0) for "
    "x[mask], or compute it outside the step"
)
DISTINCT = (
    "its result's shape depends on data: use masks of a fixed shape, of a sorted tensor "
    "s[1:] != s[:-1] says what is new, or compute it outside the step"
)
EIGENVALUES = (
    "of a symmetric or Hermitian matrix use torch.linalg.eigh; others, compute outside the step"
)
RESIZED = (
    "it changes a tensor's memory in place: make a new tensor instead, x.flatten()[:n].view(…) or "
    "torch.nn.functional.pad"
)
RESIZED_AS = f"{RESIZED}; instead of torch.nn.CrossMapLRN2d use torch.nn.LocalResponseNorm"
OF_TEXT = "return the value from the step, and print, log or format it outside"
_PART = "x.index_select(dim, start + torch.arange(length))"


def text_of(of: str) -> str:
    """What is wrong with text of what `of` names."""
    return f"the step makes text of {of}, which would happen at capture only"


# Remedies for operators with results whose shapes depend on data.
_SHAPES = {
    "aten::index": "use masks of a fixed shape, torch.where(mask, x, 0) for x[mask], or compute it "
    "outside the step",
    "aten::bincount": "use masks of a fixed shape or, of n bins, torch.zeros(n).index_add(0, x, "
    "weights), or compute it outside the step",
    "aten::repeat_interleave": "give it output_size=, use masks of a fixed shape, or compute it "
    "outside the step",
    "aten::linalg_lstsq": "use torch.linalg.pinv(A) @ B, or compute it outside the step",
    "aten::_ctc_loss": "its work depends on the lengths: train with this loss eagerly",
}
# Remedies for operators that return a Python value.
_ANSWERS = {
    "aten::equal": "(a == b).all() has the answer as a tensor, for torch.where; or take the "
    "decision outside the step",
    "aten::allclose": "torch.isclose(a, b).all() has the answer as a tensor, for torch.where; or "
    "take the decision outside the step",
}
# (end of a path in torch, function): the code that read a number to decide. "" is any function.
_DECIDERS = {
    ("nn/functional.py", "gaussian_nll_loss"): "write it out: 0.5 * (var.log() + (input - target) "
    "** 2 / var) with var = var.clamp(min=eps)",
    ("nn/utils/clip_grad.py", ""): "leave out error_if_nonfinite",
    ("optim/swa_utils.py", ""): "update the averaged model outside the step",
    ("distributions/distribution.py", "__init__"): "give the distribution validate_args=False",
    ("distributions/distribution.py", "_validate_sample"): "give the distribution "
    "validate_args=False",
}
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def of_unknown_shape(operator: str) -> str:
    """The remedy for an operator ("aten::index") whose result's shape depends on data."""
    return _SHAPES.get(operator, "use masks of a fixed shape, or compute it outside the step")


def of_answer(operator: str) -> str:
    """The remedy for an operator that returns a Python value."""
    return _ANSWERS.get(operator, "keep the decision in tensors, or take it outside the step")


def of_argument(value: object) -> str:
    """The remedy for an argument of an operator that a graph cannot hold."""
    if isinstance(value, torch.layout):
        return (
            "keep tensors and gradients dense (embeddings: sparse=False, with Adam instead of "
            "SparseAdam)"
        )
    if isinstance(value, torch.dtype):
        return "use a floating, complex (64 or 128 bits) or signed integer dtype, bool or uint8"
    if isinstance(value, torch.device) and value.type == "meta":
        return (
            "if it is a forward-mode derivative (torch.func.jvp, jacfwd, hessian, "
            "forward_ad.make_dual), take it in reverse mode: torch.autograd.grad, torch.func.vjp, "
            "jacrev; else use CPU tensors"
        )
    return "use CPU tensors and plain Python numbers"


def of_decision(otherwise: str) -> str:
    """The remedy for a number that is being read into Python; it depends on the code that reads
    it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_TORCH):
            name = code.co_filename.removeprefix(_TORCH).replace(os.sep, "/")
            for key in ((name, code.co_name), (name, "")):
                if key in _DECIDERS:
                    return _DECIDERS[key]
        frame = frame.f_back
    return otherwise


def of_place(name: str) -> tuple[str, str] | None:
    """What the step does, and the remedy, where torch asks a number for the attribute `name`
    because the part of a tensor depends on data; None for other names."""
    if name not in ("sym_and", "sym_or"):
        return None
    return "takes a part of a tensor, from a place on that is", f"use {_PART}"
