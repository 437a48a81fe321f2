"""What adaptor/scope/vector_math.h does for jobs, for eager code that a test compares with: the
first call of such a function in a process is made by one thread."""

import torch

_FUNCTIONS = "acos asin atan cos erf erfc erfinv exp log log10 log2 sin sqrt tan tanh trunc"


def prepare_vector_math() -> None:
    for dtype in (torch.float32, torch.float64):
        for name in _FUNCTIONS.split():
            getattr(torch, name)(torch.full((1,), 0.5, dtype=dtype))
