"""as_strided counts from the beginning of a memory: the job has what the tensor shows of it, so a
part of a larger memory is refused there (inference) or left to eager execution (torch.compile)."""

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import CaptureError
from support.compiled import compare, compiled, eager_reasons, own_service  # noqa: F401
from support.eager import assert_same


class Strided(nn.Module):
    def forward(self, x):
        return torch.as_strided(x, (4,), (1,), 0)


class OfAConstant(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.arange(20.0)[5:15]

    def forward(self, x):
        return x + torch.as_strided(self.table, (4,), (1,), 0)


class OfAResult(nn.Module):
    def forward(self, x):
        return torch.as_strided(x * 2, (2, 3), (1, 2), 1)


PART = torch.arange(20.0)[5:15]
WHOLE = torch.arange(10.0)


def test_a_part_of_a_larger_memory_is_refused():
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Strided(), service)
        for part in (PART, torch.arange(20.0)[:10], torch.arange(20.0)[::2]):
            with pytest.raises(CaptureError) as refused:
                predict(part)
            assert "aten::as_strided" in str(refused.value) and "clone()" in str(refused.value)
            assert_same(Strided()(WHOLE), predict(WHOLE))
            assert_same(Strided()(part.clone()), predict(part.clone()))
        with pytest.raises(CaptureError):
            laneway.inference(OfAConstant(), service)(torch.ones(4))


def test_compiled_code_gives_eagers_elements():
    with torch.no_grad():
        made = compiled(Strided())
        for x in (PART, WHOLE, torch.arange(20.0)[:10], WHOLE + 1):
            assert_same(Strided()(x), made(x))
        compare(OfAConstant(), [(torch.ones(4),)])


def test_what_the_graph_makes_itself_is_addressed():
    with torch.no_grad():
        compare(OfAResult(), [(WHOLE,), (PART,)])
    assert eager_reasons() == []
