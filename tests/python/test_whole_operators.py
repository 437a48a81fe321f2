"""Operators that torch takes apart in another way for tensors of a class of their own, as fakes
are, have eager's bits: without gradients as the operators that they are, in training as autograd
has them."""

import pytest
import torch
from torch import nn

import laneway
from support.compiled import compare, eager_reasons, own_service  # noqa: F401
from support.eager import assert_same

torch.manual_seed(3)
SQUARE = torch.randn(20, 20)
WEIGHTS = torch.arange(1, 21)
CASES = {
    "svdvals": torch.linalg.svdvals,
    "cond": torch.linalg.cond,
    "cond, nuclear": lambda x: torch.linalg.cond(x, "nuc"),
    "matrix_norm 2": lambda x: torch.linalg.matrix_norm(x, 2),
    "matrix_norm -2": lambda x: torch.linalg.matrix_norm(x, -2),
    "matrix_norm nuc": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "norm nuc": lambda x: torch.norm(x, "nuc"),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x @ x.T),
    "matrix_rank": torch.linalg.matrix_rank,
    "quantile": lambda x: torch.quantile(x, 0.3, dim=1),
    "quantile of a tensor": lambda x: torch.quantile(x, torch.tensor([0.1, 0.9])),
    "nanquantile": lambda x: torch.nanquantile(x, 0.7),
    "median and quantile": lambda x: x.median() + torch.quantile(x, 0.5, interpolation="nearest"),
    "cov": torch.cov,
    "cov, weights": lambda x: torch.cov(x, fweights=WEIGHTS, aweights=WEIGHTS.float()),
    "corrcoef": torch.corrcoef,
    "istft": lambda x: torch.istft(
        torch.complex(x[:9], x[9:18]), 16, window=torch.hann_window(16), length=60
    ),
}


class Model(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code = code

    def forward(self, x):
        return self.code(x)


@pytest.mark.parametrize("name", CASES)
def test_an_inference_has_eagers_bits(name):
    code = CASES[name]
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(Model(code), service)
        for x in (SQUARE, SQUARE + 1, SQUARE.t()):
            assert_same(code(x), predict(x))


@pytest.mark.parametrize("name", CASES)
def test_compiled_code_has_eagers_bits(name):
    with torch.no_grad():
        compare(CASES[name], [(SQUARE,), (SQUARE + 1,)])


TRAINED = {
    "svdvals": lambda x: torch.linalg.svdvals(x).sum(),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x @ x.T).sum(),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "cumprod": lambda x: torch.cumprod(x, 1).sum(),
    "cumprod of zeros": lambda x: torch.cumprod(x * (x > 0), 1).sum(),
    "cumprod over one element": lambda x: torch.cumprod(x[:, :1], 1).sum(),
    "prod": lambda x: torch.prod(x, 1).sum(),
    "prod, a dimension kept": lambda x: torch.prod(x / 2, -1, keepdim=True).sum(),
    "prod of zeros": lambda x: torch.prod(x[:, :4] * (x[:, :4] > 1), 1).sum(),
    "prod of everything, one zero": lambda x: torch.prod((x * (x > x.min()))[:2, :3]),
    "prod of everything, zeros": lambda x: torch.prod(x * (x > 1)),
    "prod of a number": lambda x: torch.prod(x.mean()),
    "prod of everything": lambda x: torch.prod(x / x.abs().mean()),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_are_eagers(name):
    code = TRAINED[name]

    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(SQUARE.clone())

        def forward(self, x):
            return code(self.weight * x)

    model, twin = Trained(), Trained()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    twins = torch.optim.SGD(twin.parameters(), lr=0.01)
    x = SQUARE + 2
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, lambda y, _: y, optimizer, service)
        for _ in range(3):
            twins.zero_grad()
            loss = twin(x)
            loss.backward()
            twins.step()
            assert_same(loss, step(x, x))
        assert_same(twin.state_dict(), step.state_dict()["model"])


def test_a_quantile_out_of_range_is_an_error_of_the_call():
    class Quantile(nn.Module):
        def forward(self, x, q):
            return torch.quantile(x, q)

    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Quantile(), service)
        assert_same(torch.quantile(SQUARE, 0.5), predict(SQUARE, torch.tensor(0.5)))
        with pytest.raises(laneway.InvalidInput, match="range"):
            predict(SQUARE, torch.tensor(1.5))
        assert_same(torch.quantile(SQUARE, 0.25), predict(SQUARE, torch.tensor(0.25)))


def test_compiled_cases_ran_as_jobs():
    with torch.no_grad():
        compare(CASES["svdvals"], [(SQUARE,)])
    assert eager_reasons() == []
