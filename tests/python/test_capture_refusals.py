"""What cannot be captured is refused with the operator, the user's line and what to do instead, and
a refusal leaves the model, the optimizer and torch as they were."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from laneway.capture.capture import capture_inference, capture_train_step
from laneway.errors import CaptureError, Error
from support.eager import _fingerprint, assert_same


class Model(nn.Module):
    """A linear layer followed by `after`, which is what each case tries."""

    def __init__(self, after: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.after = after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.linear(x))


def branch(x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def read(x: torch.Tensor) -> torch.Tensor:
    return x * float(x.detach().max().item())


def shape_from_data(x: torch.Tensor) -> torch.Tensor:
    return x[: int(x.detach().argmax())]


def boolean_index(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def nonzero(x: torch.Tensor) -> torch.Tensor:
    return x.flatten()[torch.nonzero(x.flatten() > 0)]


def own_generator(x: torch.Tensor) -> torch.Tensor:
    return x * torch.bernoulli(torch.full((4,), 0.5), generator=torch.Generator())


def resize(x: torch.Tensor) -> torch.Tensor:
    return x + x.detach().clone().resize_(1)


def sparse(x: torch.Tensor) -> torch.Tensor:
    return torch.sparse.mm(torch.eye(8).to_sparse(), x)


def device(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(4, device="meta")


def to_numpy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(x.detach().numpy())


def to_list(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(x.detach().tolist())


def cosine(x: torch.Tensor) -> torch.Tensor:
    import math

    return x * math.cos(x.detach().sum().item())


CASES = {
    branch: "torch.where",
    read: "only known when it runs",
    shape_from_data: "only known when it runs",
    boolean_index: "masks of a fixed shape",
    nonzero: "aten::nonzero",
    own_generator: "generator= out",
    resize: "aten::resize_",
    sparse: "layout|sparse",
    device: "device",
    to_numpy: "numpy",
    to_list: "only known when it runs",
    cosine: "only known when it runs",
}


def example() -> tuple:
    return torch.randn(8, 6), torch.randint(0, 4, (8,))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_refusal_names_the_line_and_the_remedy(case: Callable[..., Any]) -> None:
    model = Model(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs = example()
    before = _fingerprint(model, optimizer)
    with pytest.raises(CaptureError, match=CASES[case]) as caught:
        capture_train_step(model, F.cross_entropy, optimizer, inputs)
    assert isinstance(caught.value, Error)
    assert f"test_capture_refusals.py:{_line_of(case)}" in str(caught.value)
    assert case.__name__ in str(caught.value)
    assert_same(before, _fingerprint(model, optimizer))
    # Torch is as before: no mode is left on, the step still runs eagerly.
    assert type(torch.ones(1)) is torch.Tensor


def _line_of(case: Callable[..., Any]) -> int:
    """The cases' last line is the one at fault."""
    return max(line for *_, line in case.__code__.co_lines() if line is not None)


def test_custom_operator_is_refused() -> None:
    library = torch.library.Library("laneway_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", lambda x: x * 2, "Meta")
    model = Model(lambda x: x + torch.ops.laneway_tests.twice(x.detach()))
    with pytest.raises(CaptureError, match="laneway_tests::twice") as caught:
        capture_train_step(
            model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), example()
        )
    assert caught.value.operator == "laneway_tests::twice"
    assert caught.value.remedy


def test_weights_reached_from_outside_are_refused() -> None:
    """Their gradients would silently be lost."""
    model = nn.Linear(6, 4)
    weight = model.weight

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target) + weight.square().sum()

    with pytest.raises(CaptureError, match="reference from outside"):
        capture_train_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), example())


def test_gradients_left_from_before_are_refused() -> None:
    """A closure that accumulates over iterations, of a job that is told to keep no gradients."""
    model = nn.Linear(6, 4)
    F.cross_entropy(model(example()[0]), example()[1]).backward()

    def accumulate(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = example()
    before = _fingerprint(model, optimizer)
    with pytest.raises(CaptureError, match="zero_grad"):
        capture_train_step(model, None, optimizer, inputs, closure=accumulate, keep_gradients=False)
    assert_same(before, _fingerprint(model, optimizer))


def test_sgd_with_dampening_is_refused_before_its_first_step() -> None:
    model = nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.1)
    with pytest.raises(CaptureError, match="one eager step first"):
        capture_train_step(model, F.cross_entropy, optimizer, example())


class Warming(torch.optim.SGD):
    """Steps less far as long as a parameter is small."""

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            rate = 0.1 if parameter.norm().item() > 3 else 0.01
            parameter.sub_(parameter.grad, alpha=rate)


def test_optimizers_that_branch_on_a_number_are_refused() -> None:
    model = nn.Linear(6, 4)
    with pytest.raises(CaptureError, match=r"Warming\.step.*use an optimizer whose step"):
        capture_train_step(model, F.cross_entropy, Warming(model.parameters()), example())


@pytest.mark.parametrize(
    ("change", "message"),
    [(torch.compile, "torch.compile"), (torch.jit.script, "TorchScript")],
)
def test_compiled_models_are_refused(change: Any, message: str) -> None:
    model = nn.Linear(6, 4)
    with pytest.raises(CaptureError, match=message):
        capture_inference(change(model), (torch.randn(8, 6),))


def test_optimizer_closure_is_refused() -> None:
    model = nn.Linear(6, 4)
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(CaptureError):
        capture_train_step(model, F.cross_entropy, optimizer, example())


@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        (lambda output, target: output, "not one number"),
        (lambda output, target: "loss", "not one number"),
        (lambda output, target: output.detach().sum(), "does not depend"),
    ],
)
def test_losses_that_are_none(loss_fn: Any, message: str) -> None:
    model = nn.Linear(6, 4)
    with pytest.raises(CaptureError, match=message):
        capture_train_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), example())


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.empty(8, 6, device="meta"), "device meta"),
        (torch.eye(8).to_sparse(), "layout"),
        (torch.quantize_per_tensor(torch.randn(8, 6), 0.1, 0, torch.quint8), "layout|dtype"),
        (torch.randn(8, 6, dtype=torch.complex64).conj(), "conjugated"),
    ],
)
def test_inputs_that_no_graph_can_take(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture_inference(nn.Linear(6, 4), (tensor,))


def test_an_exception_of_the_users_comes_through_unchanged() -> None:
    class Oops(Exception):
        pass

    def fail(x: torch.Tensor) -> torch.Tensor:
        raise Oops("mine")

    model = Model(fail)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = copy.deepcopy(_fingerprint(model, optimizer))
    with pytest.raises(Oops, match="mine"):
        capture_train_step(model, F.cross_entropy, optimizer, example())
    assert_same(before["parameters"], _fingerprint(model, optimizer)["parameters"])
    assert type(model.linear.weight) is nn.Parameter


def test_a_float32_precision_that_graphs_have_no_word_for_is_refused(monkeypatch):
    # "bfx9" of torch 2.15, which needs a CUDA of its own.
    def said(library: str, kind: str) -> str:
        return "bfx9" if (library, kind) == ("cuda", "matmul") else "none"

    monkeypatch.setattr("laneway.capture.numeric_context._fp32_precision", said)
    with pytest.raises(CaptureError, match=r"'bfx9' of cuda's matmul .*none, ieee, tf32, bf16"):
        capture_inference(nn.Linear(2, 2), (torch.ones(1, 2),))
