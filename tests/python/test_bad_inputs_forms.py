"""Which tensors a captured step can be fed, by layout, dtype, size and kind: what eager PyTorch
takes leaves the state that eager leaves, bit for bit; the rest is refused by name, and the job goes
on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.eager import assert_same, eager_step
from support.pair import Pair, batch


@pytest.fixture(scope="module")
def service():
    with laneway.embedded("128MiB") as opened:
        yield opened


# Layouts.


def layouts() -> dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    x, y = batch()
    buffer = torch.randn(64)
    return {
        "transposed": lambda: (x.t().contiguous().t(), y),
        "every second column": lambda: (torch.randn(4, 16)[:, ::2], y),
        "expanded": lambda: (x[:1].expand(4, 8), y[:1].expand(4)),
        "overlapping": lambda: (buffer.as_strided((4, 8), (3, 1)), y),
        "an offset": lambda: (buffer[32:].view(4, 8), y),
        "strided labels": lambda: (x, torch.stack([y, y], 1)[:, 0]),
        "a negative view": lambda: (torch._neg_view(x), y),
        "that requires a gradient": lambda: (x.clone().requires_grad_(), y),
        "a parameter": lambda: (nn.Parameter(x.clone()), y),
        "frozen by a reversed slice": lambda: (x.flip(0).t().contiguous().t(), y),
        "unaligned bytes": lambda: (
            torch.frombuffer(bytearray(130), dtype=torch.float32, offset=2, count=32).view(4, 8),
            y,
        ),
    }


@pytest.mark.parametrize("layout", layouts())
def test_any_layout_of_the_same_numbers(service, layout: str) -> None:
    odd = layouts()[layout]()
    with Pair(service) as pair:
        pair.train(*batch())
        pair.train(*odd)
        pair.check()
    if layout in ("a negative view",):
        with Pair(service) as pair, pytest.raises(laneway.CaptureError, match="resolve_neg"):
            pair.step(*odd)
        return
    with Pair(service) as pair:
        pair.train(*odd)
        pair.train(*batch())
        pair.check()


def test_channels_last(service) -> None:
    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))

    images, labels = torch.randn(2, 3, 6, 6), torch.tensor([0, 2])
    last = images.to(memory_format=torch.channels_last)
    with Pair(service, model) as pair:
        pair.train(last, labels)
        pair.train(last * 2, labels)
        pair.check()


def test_inputs_may_share_memory(service) -> None:
    def loss(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(scores, target)

    x, _ = batch()
    with Pair(service, loss=loss) as pair:
        pair.train(x, x[:, :3])
        pair.train(x, x[:, 5:])
        pair.check()


def test_an_input_may_be_the_models_own_parameter(service) -> None:
    """The client's parameters keep their old values, so that is what the step is given."""

    def loss(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(scores, target)

    with Pair(service, loss=loss) as pair:
        weight = pair.step.model[2].weight
        first = weight.detach().clone()
        x = batch()[0]
        for _ in range(2):
            expected = eager_step(pair.model, pair.loss, pair.optimizer, (x, first[:, :4].t()))
            assert_same(expected.detach(), pair.step(x, weight.detach()[:, :4].t()), "loss")
        pair.check()


def test_inputs_that_change_behind_a_submit_were_copied(service) -> None:
    x, y = batch()
    with Pair(service) as pair:
        pair.train(x, y)
        given, labels = x.clone(), y.clone()
        futures = []
        for _ in range(5):
            futures.append(pair.step.submit(given, labels))
            given.fill_(float("nan"))
            labels.fill_(99)
            given, labels = x.clone(), y.clone()
        for future in futures:
            expected = eager_step(pair.model, pair.loss, pair.optimizer, (x, y))
            assert_same(expected.detach(), future.result(), "loss")
        pair.check()


# Shapes and dtypes.


def test_batches_of_none(service) -> None:
    x, y = torch.empty(0, 8), torch.empty(0, dtype=torch.int64)
    with Pair(service) as pair:
        pair.train(x, y)
        pair.train(x, y)
        pair.check()


def test_numbers_as_inputs_without_dimensions(service) -> None:
    def loss(scores: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (scores * scale).square().mean()

    with Pair(service, loss=loss) as pair:
        pair.train(batch()[0], torch.tensor(0.5))
        pair.train(batch()[0], torch.tensor(float("inf")))
        pair.check()


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128]
)
@pytest.mark.filterwarnings("ignore:Complex modules")
def test_dtypes_of_a_model(service, dtype: torch.dtype) -> None:
    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)

    def loss(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return scores.abs().square().mean()

    x, y = batch()
    with Pair(service, model, loss) as pair:
        pair.train(x.to(dtype), y)
        pair.train(x.to(dtype) * 2, y)
        pair.check()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64])
def test_dtypes_of_an_input(service, dtype: torch.dtype) -> None:
    def loss(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (scores * mask).square().mean()

    x, y = batch()
    with Pair(service, loss=loss) as pair:
        pair.train(x, (y[:, None] > 0).to(dtype))
        pair.train(x, (y[:, None] > 1).to(dtype))
        pair.check()


def test_conjugate_views(service) -> None:
    def loss(scores: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return (scores * factor).abs().mean()

    factor = torch.complex(torch.randn(3), torch.randn(3))
    with Pair(service, loss=loss) as pair:
        pair.train(batch()[0], factor)
        pair.train(batch()[0], factor.conj())
        pair.check()


def test_results_that_are_conjugate_or_negative_views(service) -> None:
    class Views(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            z = torch.complex(x, x * 2)
            return z.conj(), z.conj().imag, z.t().conj()

    x = torch.randn(3, 2)
    with laneway.inference(Views(), service) as predict:
        for _ in range(2):
            assert_same([t.resolve_conj().resolve_neg() for t in Views()(x)], list(predict(x)))


def test_labels_of_uint8_as_eager_takes_them(service) -> None:
    x, y = batch()
    with Pair(service) as pair:
        pair.train(x, y.to(torch.uint8))
        pair.refuse("has 255 at ", x, torch.full((4,), 255, dtype=torch.uint8))
        pair.check()


# What is no input at all.


def nothing_like_it() -> dict[str, tuple[str, Callable[[], tuple]]]:
    x, y = batch()
    return {
        "dtype": ("dtype", lambda: (x.double(), y)),
        "labels' dtype": ("type Long|dtype", lambda: (x, y.int())),
        "shape": ("batch_size|shape", lambda: (torch.randn(5, 8), y)),
        "dimensions": ("batch_size|shape", lambda: (x[None], y)),
        "none of it": ("batch_size|shape", lambda: (x[:0], y)),
        "too few": ("argument", lambda: (x,)),
        "too many": ("argument", lambda: (x, y, y)),
        "none": ("argument", lambda: ()),
        "a list of labels": ("must be Tensor", lambda: (x, y.tolist())),
        "a list of tensors": ("must be Tensor", lambda: ([x], y)),
        "a dictionary": ("must be Tensor", lambda: ({"x": x}, y)),
        "an array": ("ndarray.*tensor", lambda: (numpy.zeros((4, 8), dtype="float32"), y)),
        "None": ("NoneType", lambda: (None, y)),
        "a number": ("not float", lambda: (0.5, y)),
        "meta": ("device meta.*cpu", lambda: (x.to("meta"), y)),
        "sparse": ("layout torch.sparse_coo", lambda: (x.to_sparse(), y)),
        "sparse rows": ("layout torch.sparse_csr", lambda: (x.to_sparse_csr(), y)),
        "complex": ("complex", lambda: (x.to(torch.complex64), y)),
    }


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", nothing_like_it())
def test_arguments_that_no_step_of_the_job_can_take_are_refused_by_name(service, kind: str) -> None:
    match, inputs = nothing_like_it()[kind]
    with Pair(service) as pair:
        pair.train(*batch())
        pair.refuse(match, *inputs())
        pair.train(*batch())
        pair.check()


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (torch.empty(4, 8, device="meta"), "input 0 is on device meta.*cpu"),
        (torch.eye(4, 8).to_sparse(), "input 0 has layout torch.sparse_coo.*to_dense"),
    ],
)
def test_a_first_call_with_what_no_graph_can_take(service, tensor, match: str) -> None:
    with Pair(service) as pair:
        with pytest.raises(laneway.CaptureError, match=match):
            pair.step(tensor, batch()[1])
        pair.train(*batch())
        pair.check()


# Sizes.


def test_an_input_that_does_not_fit_the_pool_is_refused_with_the_arithmetic(service) -> None:
    """A step whose activations alone need more than the pool has."""
    x = torch.zeros(1, 1).expand(1 << 22, 8)
    with Pair(service) as neighbour, Pair(service, loss=lambda out, _: out.mean()) as pair:
        neighbour.train(*batch())
        with pytest.raises(laneway.OutOfMemory, match=r"MiB.*pool"):
            pair.step(x, torch.zeros(1))
        neighbour.train(*batch())
        neighbour.check()


def test_more_elements_than_32_bits_count_are_refused_by_arithmetic(service) -> None:
    x = torch.zeros(1, 1).expand(1 << 28, 16)
    with (
        laneway.inference(nn.Linear(16, 1), service) as predict,
        pytest.raises(laneway.OutOfMemory, match=r"GiB"),
    ):
        predict(x)
