"""Operators that a step must not have are refused when it is captured, with operator, line and what
to do; and views that count from the start of a tensor's memory see that tensor in the image too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_train_step
from support.pair import Pair, batch


def give_storage(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().clone().set_(torch.ones(4, 4))


def give_data(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    y.data = torch.ones(4, 4)
    return x + y


def resize(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().clone().resize_as_(torch.ones(1))


def map_file(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_file("/dev/null", size=4, dtype=torch.float32)


def pin(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().pin_memory()


def make_sparse(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().to_sparse().to_dense()


def sparse_gradient(x: torch.Tensor) -> torch.Tensor:
    ids = torch.zeros(4, dtype=torch.int64)
    return x + F.embedding(ids, nn.Parameter(torch.ones(3, 4)), sparse=True)


def quantize(x: torch.Tensor) -> torch.Tensor:
    return x + torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.quint8).dequantize()


def nest(x: torch.Tensor) -> torch.Tensor:
    return x + torch.nested.nested_tensor([x.detach()]).to_padded_tensor(0.0)[0]


def move(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().to("meta")


def count(x: torch.Tensor) -> torch.Tensor:
    return x + torch.bincount(x.detach().long().flatten().abs(), minlength=4)[:4]


def repeat(x: torch.Tensor) -> torch.Tensor:
    return x + x.repeat_interleave(torch.tensor([1, 1, 1, 1]), 0)


CASES: dict[Callable[[torch.Tensor], torch.Tensor], str] = {
    give_storage: r"aten::set_.*make a new tensor",
    give_data: r"\.data.*copy_",
    resize: r"aten::resize_as_.*make a new tensor",
    map_file: r"aten::from_file.*before the step",
    pin: r"pinned.*outside the step",
    make_sparse: r"sparse.*plain strided",
    sparse_gradient: r"sparse",
    quantize: r"quint8|quantize",
    nest: r"nested",
    move: r"device.*CPU tensors",
    count: r"aten::bincount.*masks of a fixed shape",
    repeat: r"aten::repeat_interleave.*masks of a fixed shape",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("ignore")
def test_operators_that_a_step_must_not_have(case: Callable) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return case(self.linear(x))

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(laneway.CaptureError, match=CASES[case]) as caught:
        capture_train_step(model, lambda out, _: out.square().mean(), optimizer, batch())
    assert "test_bad_inputs_operators.py:" in str(caught.value)
    assert caught.value.remedy


class Windows(nn.Module):
    """Reads its weight through windows that count from the start of the weight's memory."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first = nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.randn(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) @ self.weight.as_strided((8, 3), (1, 1), 2)


def test_windows_over_a_parameter_see_that_parameter() -> None:
    with laneway.embedded("64MiB") as service, Pair(service, Windows) as pair:
        for seed in range(3):
            pair.train(*batch(seed))
        pair.check()


def test_pinned_memory_is_refused_before_the_job_starts() -> None:
    def loss(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return (scores + torch.empty(3, pin_memory=True).zero_()).mean()

    with (
        laneway.embedded("64MiB") as service,
        Pair(service, loss=loss) as pair,
        pytest.raises(laneway.GraphError, match=r"'pin_memory' must be False.*from test_bad"),
    ):
        pair.step(*batch())
