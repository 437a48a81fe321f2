"""What a capture takes for an operator's results lies in memory as the CPU's kernels lay them: for
every operator that PyTorch's own database comes down to, forward and backward, in five layouts of
its operands. Of an operator that is missing in laneway/layouts.py the line says which and how."""

import os
import warnings

import pytest
import torch

from bench.corpus import databases, fakes
from bench.corpus.layouts import LAYOUTS
from laneway.operators import layouts

# Captures never run these: why.
NOT_RECORDED = {
    "aten::native_batch_norm": "recorded in the form that says what it writes",
    "aten::_unique": "refused: its result's shape depends on data",
    "aten::view": "of tensors without elements a view has other memory than its fake",
}


def lying(samples: int | None, only: str = "") -> dict[str, str]:
    """By overload, an example of where what a capture takes is wrong."""
    scan = fakes.Scan()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        for operator in databases.operators():
            floats = torch.float32 in operator.dtypes and "jiterator" not in operator.name
            if floats and only in operator.full_name:
                databases.seed(0)
                fakes.run(operator, scan, samples, list(LAYOUTS))
    torch.set_num_threads(threads)
    assert scan.found
    return {
        name: words
        for name, found in scan.found.items()
        for (verdict, _), words in found.examples.items()
        if verdict in (fakes.LIES, fakes.RAISES) and name not in NOT_RECORDED
    }


def test_captures_know_how_results_lie():
    samples = None if os.environ.get("LANEWAY_LONG") else 1
    assert lying(samples) == {}


@pytest.mark.parametrize(
    ("operator", "named"), [("fft.fft", "aten::_fft_r2c"), ("copysign", "aten::copysign.Tensor")]
)
def test_an_operator_that_is_not_listed_is_found(operator, named, monkeypatch):
    for name in ("_ON_CPU", "_ON_CPU_WHEN_UNUSUAL"):
        monkeypatch.setattr(layouts, name, frozenset())
    assert named in lying(4, operator)
