"""Inputs reach the job as they lie in memory, gaps and overlaps included, because kernels choose by
strides: numbers and, of compiled code, strides are eager's for views of all kinds."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import laneway
from laneway.capture import border
from support.compiled import compare, eager_reasons, own_service, running  # noqa: F401
from support.eager import assert_same

torch.manual_seed(1)
MEMORY = torch.randn(4096)
# Offsets are multiples of 64 bytes: what is closer changes the bits of eager's matrix products too.
VIEWS = {
    "a slice of rows": MEMORY[16:].view(-1, 16)[:8, :12],
    "every other column": MEMORY[:512].view(16, 32)[:, ::2],
    "a transposed slice": MEMORY[:512].view(16, 32)[:12, :8].t(),
    "expanded": MEMORY[:12].expand(8, 12),
    "expanded columns": MEMORY[:8, None].expand(8, 12),
    "overlapping windows": MEMORY[:64].unfold(0, 16, 4),
    "one row far from the next": MEMORY.as_strided((3, 8), (1024, 1)),
    "a part of a transposed": MEMORY[:512].view(32, 16).t()[2:10, 4:20],
    "one column": MEMORY[:64].view(8, 8)[:, 3:4],
}
CODES = {
    "product": lambda x: x @ x.t(),
    "sum": lambda x: (x.sum(0), x.sum(1), x.sum()),
    "elementwise": lambda x: torch.tanh(x) * 2 + x,
    "softmax": lambda x: torch.softmax(x, 1),
    "reshape": lambda x: x.reshape(-1) * 2,
    "contiguous": lambda x: x.contiguous().view(-1),
    "view": lambda x: x.t()[1:],
    "clone": lambda x: x.clone(),
}


class Model(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code = code

    def forward(self, x):
        return self.code(x)


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_all_kinds(name):
    x = VIEWS[name]
    with laneway.embedded("64MiB") as service, torch.no_grad():
        for what, code in CODES.items():
            torch._dynamo.reset()
            compare(code, [(x,), (x,)])
            assert eager_reasons() == [], what
            assert_same(code(x), laneway.inference(Model(code), service)(x), what)


def test_a_slice_of_an_image_in_channels_last():
    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(4, 6, 3)

        def forward(self, x):
            y = self.convolution(x)
            return y, functional.max_pool2d(x, 2), y.flatten(1)

    image = torch.randn(2, 4, 12, 8).contiguous(memory_format=torch.channels_last)[:, :, 2:]
    with torch.no_grad():
        compare(Convolution(), [(image,), (image + 1,), (image.contiguous(),)])
    assert eager_reasons() == []


def test_the_same_function_with_other_layouts_in_turn():
    def code(x):
        return x @ x.t(), x.flatten()

    wanted = [x for x in VIEWS.values() if x.shape == (8, 12)]
    assert len(wanted) >= 3
    with torch.no_grad(), laneway.embedded("64MiB") as service:
        compare(code, [(x,) for x in wanted * 2])
        predict = laneway.inference(Model(code), service)
        for x in wanted * 2:
            assert_same(code(x), predict(x))


def test_indices_between_the_elements_are_nobodys():
    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4)

        def forward(self, i):
            return self.table(i)

    memory = torch.full((4, 6), 99)
    memory[:, ::2] = torch.arange(12).reshape(4, 3) % 10
    model = Lookup()
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(model, service)
        assert_same(model(memory[:, ::2]), predict(memory[:, ::2]))
        memory[2, 2] = 10
        with pytest.raises(laneway.InvalidInput, match="10"):
            predict(memory[:, ::2])


def test_elements_far_apart_are_copied_together_and_it_is_said(monkeypatch):
    monkeypatch.setattr(border, "_MOST_GAPS", 1024)
    x = MEMORY.view(8, 512)[:, 5]
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Model(lambda x: x * 2), service)
        with pytest.warns(RuntimeWarning, match="input 0 has 32 bytes in 14340 bytes of memory"):
            assert_same(x * 2, predict(x))
        assert_same(x * 2, predict(x))
