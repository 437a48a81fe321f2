"""The words of refusals fit their own cases: each case is refused with the remedy that is meant for
it, as a laneway.Error that names the user's line, and what the remedy recommends is a job whose
results are eager's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.compiled import flat
from support.eager import assert_same

torch.manual_seed(3)
X = torch.randn(4, 6)
COUNTS = torch.tensor([1, 0, 2, 2])


@pytest.fixture(scope="module")
def service() -> Iterator[laneway.Service]:
    with laneway.embedded("64MiB") as opened:
        yield opened


class Calls(nn.Module):
    """Code over tensors that depend on a weight: what is decided by inputs alone is captured."""

    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.code(*(x * self.one if x.is_floating_point() else x for x in inputs))


def new_among(x: torch.Tensor) -> Any:
    s = x.flatten().sort().values
    return s, torch.cat([torch.ones(1, dtype=torch.bool), s[1:] != s[:-1]])


def written_out(x: torch.Tensor) -> torch.Tensor:
    var = x.abs().clamp(min=1e-6)
    return (0.5 * (var.log() + (x - 1) ** 2 / var)).mean()


def scattered(x: torch.Tensor) -> torch.Tensor:
    mask, values = X > 0, torch.ones(4, 6)
    return x.index_put((torch.arange(4),), torch.where(mask, values, 0.0), accumulate=True)


def checked_distribution(x: torch.Tensor, check: bool = True) -> torch.Tensor:
    spread = x.abs() + 1
    normal = torch.distributions.Normal(x, spread, validate_args=check)
    return normal.log_prob(x + 1)


# what is refused, the words, what they recommend, the inputs
CASES: dict[str, tuple[Callable[..., Any], str, Callable[..., Any], tuple]] = {
    "boolean index": (
        lambda x: x[x > 0].sum(),
        r"aten::index.*torch.where\(mask, x, 0\)",
        lambda x: torch.where(x > 0, x, 0).sum(),
        (X,),
    ),
    "masked_select": (
        lambda x: x.masked_select(x > 0).sum(),
        r"torch.where\(mask, x, 0\)",
        lambda x: torch.where(x > 0, x, 0).sum(),
        (X,),
    ),
    "nonzero": (
        lambda x: x.flatten()[(x > 0).flatten().nonzero()[:, 0]].sum(),
        r"torch.where\(mask, x, 0\)",
        lambda x: torch.where(x > 0, x, 0).sum(),
        (X,),
    ),
    "unique": (lambda x: x.unique(), r"s\[1:\] != s\[:-1\]", new_among, (X,)),
    "unique_consecutive": (
        lambda x: x.unique_consecutive(),
        r"s\[1:\] != s\[:-1\]",
        new_among,
        (X,),
    ),
    "bincount": (
        lambda i: torch.bincount(i, minlength=5),
        r"torch.zeros\(n\).index_add\(0, x, weights\)",
        lambda i: torch.zeros(5).index_add(0, i, torch.ones(4)),
        (COUNTS,),
    ),
    "repeat_interleave": (
        lambda x, i: x.repeat_interleave(i, 0),
        "output_size=",
        lambda x, i: x.repeat_interleave(i, 0, output_size=5),
        (X, COUNTS),
    ),
    "lstsq": (
        lambda x: torch.linalg.lstsq(x.t(), torch.ones(6, 1)).solution,
        r"torch.linalg.pinv\(A\) @ B",
        lambda x: torch.linalg.pinv(x.t()) @ torch.ones(6, 1),
        (X,),
    ),
    "eig": (
        lambda x: torch.linalg.eig(x @ x.t()),
        "aten::linalg_eig.*torch.linalg.eigh",
        lambda x: torch.linalg.eigh(x @ x.t()),
        (X,),
    ),
    "eigvals": (
        lambda x: torch.linalg.eigvals(x @ x.t()),
        "torch.linalg.eigh",
        lambda x: torch.linalg.eigh(x @ x.t()).eigenvalues,
        (X,),
    ),
    "allclose": (
        lambda x: x if torch.allclose(x, x + 1) else -x,
        r"torch.isclose\(a, b\).all\(\)",
        lambda x: torch.where(torch.isclose(x, x + 1).all(), x, -x),
        (X,),
    ),
    "equal": (
        lambda x: x if torch.equal(x, x + 1) else -x,
        r"\(a == b\).all\(\)",
        lambda x: torch.where((x == x + 1).all(), x, -x),
        (X,),
    ),
    "narrow": (
        lambda x, i: torch.narrow(x, 0, i[0], 2),
        r"from a place.*x.index_select\(dim, start \+ torch.arange\(length\)\)",
        lambda x, i: x.index_select(0, i[0] + torch.arange(2)),
        (X, COUNTS),
    ),
    "tensor_split by what depends on a weight": (
        lambda x: torch.tensor_split(x, x.abs().sum(1).long().clamp(max=3)[:2]),
        "decision in tensors",
        lambda x: torch.tensor_split(x, [1, 2]),
        (X,),
    ),
    "resize_ to less": (
        lambda x: (x * 2).resize_(2, 3),
        r"x.flatten\(\)\[:n\].view",
        lambda x: (x * 2).flatten()[:6].view(2, 3),
        (X,),
    ),
    "resize_ to more": (
        lambda x: (x * 2).resize_(5, 6),
        "functional.pad",
        lambda x: F.pad((x * 2).flatten(), (0, 6)).view(5, 6),
        (X,),
    ),
    "CrossMapLRN2d": (
        nn.CrossMapLRN2d(2),
        "LocalResponseNorm",
        nn.LocalResponseNorm(2),
        (torch.randn(2, 3, 4, 4),),
    ),
    "to_sparse": (
        lambda x: (x * (x > 0)).to_sparse().to_dense(),
        "keep it dense, with zeros",
        lambda x: x * (x > 0),
        (X,),
    ),
    "a dtype": (
        lambda x: x.abs().to(torch.uint16).float(),
        "torch.uint16.*signed integer dtype",
        lambda x: x.abs().to(torch.int16).float(),
        (X,),
    ),
    "complex32": (
        lambda x: x.chalf().real.float(),
        "complex32.*64 or 128 bits",
        lambda x: x.to(torch.complex64).real,
        (X,),
    ),
    "gaussian_nll_loss": (
        lambda x: F.gaussian_nll_loss(x, x + 1, x.abs()),
        r"0.5 \* \(var.log\(\)",
        written_out,
        (X,),
    ),
    "distributions": (
        checked_distribution,
        "validate_args=False",
        lambda x: checked_distribution(x, False),
        (X,),
    ),
    "_unsafe_masked_index": (
        lambda x: torch.ops.aten._unsafe_masked_index(x, X > 0, [torch.arange(4)], 0.0),
        r"torch.where\(mask, x\[indices\], fill\)",
        lambda x: torch.where(X > 0, x[torch.arange(4)], 0.0),
        (X,),
    ),
    "_unsafe_masked_index_put_accumulate": (
        lambda x: torch.ops.aten._unsafe_masked_index_put_accumulate(
            x, X > 0, [torch.arange(4)], torch.ones(4, 6)
        ),
        r"x.index_put\(indices, torch.where",
        scattered,
        (X,),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_refusal_recommends_what_works(case: str, service: laneway.Service) -> None:
    refused, words, recommended, inputs = CASES[case]
    with laneway.inference(Calls(refused), service) as predict:
        with pytest.raises(laneway.CaptureError, match=words) as caught:
            predict(*inputs)
        assert "test_refusal_remedies.py:" in str(caught.value) and caught.value.remedy
    with torch.no_grad():
        refused(*inputs)  # eager execution takes it
        expected = recommended(*inputs)
    with laneway.inference(Calls(recommended), service) as predict:
        for _ in range(2):
            assert_same(flat(expected), flat(predict(*inputs)))


# Training.


def trained(service: laneway.Service, closure: Any, optimizer: Callable[..., Any]) -> None:
    model = nn.Linear(6, 2)
    with laneway.train_step(
        model, None, optimizer(model.parameters()), service, closure=closure
    ) as step:
        step(X, torch.zeros(4, 2))


def backward(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss


def with_a_closure(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        return backward(model, x, y)

    return optimizer.step(closure)


def after_backward(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = backward(model, x, y)
    optimizer.step()
    return loss


def test_lbfgs_is_told_of_optimizers_without_a_closure(service: laneway.Service) -> None:
    with pytest.raises(
        laneway.CaptureError, match=r"LBFGS.step\(closure\).*SGD, AdamW.*optimizer=None"
    ):
        trained(service, with_a_closure, torch.optim.LBFGS)
    for optimizer in (torch.optim.SGD, torch.optim.AdamW):
        with pytest.raises(laneway.CaptureError, match=r"call step\(\) without a closure"):
            trained(service, with_a_closure, optimizer)
        trained(service, after_backward, optimizer)


@pytest.mark.parametrize("check", [True, False])
def test_clipping_that_raises_is_told_to_leave_that_out(
    service: laneway.Service, check: bool
) -> None:
    def closure(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = backward(model, x, y)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=check)
        optimizer.step()
        return loss

    if check:
        with pytest.raises(laneway.CaptureError, match="leave out error_if_nonfinite"):
            trained(service, closure, torch.optim.SGD)
    else:
        trained(service, closure, torch.optim.SGD)


# An error of the user's own stays torch's.


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (lambda x: x + torch.ones(7), RuntimeError),
        (lambda x: x @ x, RuntimeError),
        (lambda x: x.view(5, 5), RuntimeError),
        (lambda x: x.sum(7), IndexError),
        (lambda x: torch.cat([x, x[:, :2]]), RuntimeError),
        (lambda x: F.conv2d(x, x), RuntimeError),
        (lambda x: x.t().view(24), RuntimeError),
        (lambda x: torch.linalg.cholesky(x), RuntimeError),
        (lambda x: x[9], IndexError),
    ],
)
def test_what_eager_execution_refuses_stays_its_error(service, code: Any, error: type) -> None:
    with pytest.raises(error):
        code(X)
    with laneway.inference(Calls(code), service) as predict, pytest.raises(error) as caught:
        predict(X)
    assert not isinstance(caught.value, laneway.Error)
