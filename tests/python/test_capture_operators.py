"""Operators that people use inside models and losses leave the bits of eager when captured.

Each case puts a function behind a linear layer and trains three steps against plain PyTorch; among
them are all ways of drawing random numbers, views written in place, complex numbers and norms that
keep state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from laneway.capture.capture import capture_train_step
from support.eager import assert_same, check_training, eager_step
from support.reference_executor import ReferenceJob


class After(nn.Module):
    """A linear layer and a function of its output."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x))


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 0
    y[:, 1:3] += 1
    y[0] *= 2
    return y


def conjugated(x: torch.Tensor) -> torch.Tensor:
    left = torch.view_as_complex(torch.stack([x, x * 2], -1))
    right = torch.view_as_complex(torch.stack([x, -x], -1))
    return (left.conj() * right).real + left.t().conj().t().imag


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: x * torch.rand(5),
    "rand_like": lambda x: x * torch.rand_like(x),
    "randn": lambda x: x * torch.randn(5, dtype=torch.float64).float(),
    "randn_like": lambda x: x + torch.randn_like(x),
    "randint": lambda x: x * torch.randint(0, 3, (5,)),
    "randint-high": lambda x: x * torch.randint(3, (5,)),
    "randint_like": lambda x: x * torch.randint_like(x, 4),
    "randperm": lambda x: x[:, torch.randperm(5)],
    "normal": lambda x: x + torch.normal(0.0, 1.0, (5,)) + torch.empty(5).normal_(),
    "uniform": lambda x: x + torch.empty(5).uniform_(-1, 1) + torch.empty(5).exponential_(),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full((5,), 0.5)),
    "multinomial": lambda x: x + torch.multinomial(torch.softmax(x.detach(), 1), 1),
    "poisson": lambda x: x + torch.poisson(torch.full((5,), 0.5)),
    "gumbel": lambda x: x + F.gumbel_softmax(x),
    "dropout1d": lambda x: F.dropout1d(x.unsqueeze(0), 0.5)[0],
    "feature-alpha-dropout": lambda x: F.feature_alpha_dropout(x[:, :, None], 0.5)[:, :, 0],
    "fourier": lambda x: torch.fft.fft(x).abs(),
    "conjugated": conjugated,
    "checkpoint": lambda x: checkpoint(lambda y: torch.tanh(y) * 2, x, use_reentrant=False),
    "einsum": lambda x: torch.einsum("bi,bj->bij", x, x).sum(1),
    "index-put": lambda x: torch.zeros_like(x).index_put((torch.tensor([0, 1]),), x[:2]) + x,
    "assigned": assigned,
    "put-in-place": lambda x: x + torch.zeros(5).put_(torch.tensor([3, 1]), x.detach()[0, :2]),
    "histogram": lambda x: x * torch.histogram(x.detach(), 5, range=(-1.0, 1.0))[0],
    "reflectors": lambda x: x @ torch.ormqr(*torch.geqrf(x.detach()[:5]), torch.eye(5)),
    "complex-numbers": lambda x: (torch.exp(1j * x) * (2 - 1j)).imag,
    "sorted": lambda x: x.cumsum(1) + x.sort(1)[0] + x.topk(5, 1)[0],
    "where": lambda x: torch.where(x > 0, x.clamp(-1, 1), 0.1 * x) / x.norm(dim=1, keepdim=True),
    "unfold": lambda x: F.pad(x, (1, 1)).unfold(1, 3, 1).sum(-1),
    "split": lambda x: torch.cat(x.split([2, 3], 1)[::-1], 1),
    "views-in-place": lambda x: x.clone().t_().contiguous().t().unsqueeze_(0).squeeze_(0),
    "interpolate": lambda x: F.interpolate(x[:, None], scale_factor=2)[:, 0, ::2],
    "length": lambda x: x * len(x) / x.shape[1],
}


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def classes(count: int = 3) -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(count)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_leaves_the_bits_of_eager(name: str) -> None:
    check_training(After(FUNCTIONS[name]), sgd, F.cross_entropy, classes())


NORMS: dict[str, Callable[[], nn.Module]] = {
    "spectral": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(12, 5)),
    "spectral-hook": lambda: nn.utils.spectral_norm(nn.Linear(12, 5)),
    "weight": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(12, 5)),
    "instance": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 4)),
        nn.InstanceNorm1d(3, track_running_stats=True),
        nn.Flatten(),
        nn.Linear(12, 5),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norm_leaves_the_bits_of_eager(name: str) -> None:
    check_training(NORMS[name](), sgd, F.cross_entropy, classes())


LOSSES: dict[str, Any] = {
    "mse": F.mse_loss,
    "smooth-l1": F.smooth_l1_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
    "binary": lambda o, y: F.binary_cross_entropy_with_logits(o, y.sigmoid()),
    "divergence": lambda o, y: F.kl_div(o.log_softmax(1), y.softmax(1), reduction="batchmean"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_leaves_the_bits_of_eager(name: str) -> None:
    data = [(torch.randn(8, 12), torch.randn(8, 5)) for _ in range(3)]
    check_training(nn.Linear(12, 5), sgd, LOSSES[name], data)


def test_cross_entropy_with_all_its_options() -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        weight = torch.arange(1.0, 6.0)
        return F.cross_entropy(output, target, weight, ignore_index=2, label_smoothing=0.1)

    check_training(nn.Linear(12, 5), sgd, loss_fn, classes())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_leave_the_bits_of_eager(dtype: torch.dtype) -> None:
    data = [(x.to(dtype), y) for x, y in classes()]
    model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 5)).to(dtype)
    check_training(
        model, lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), F.cross_entropy, data
    )


@pytest.mark.parametrize(
    "layer",
    [nn.EmbeddingBag(10, 5), nn.Embedding(10, 5, padding_idx=0, max_norm=1.0)],
    ids=["bag", "max-norm"],
)
def test_embeddings_leave_the_bits_of_eager(layer: nn.Module) -> None:
    data = [(torch.randint(0, 10, (8, 3)), torch.randint(0, 5, (8,))) for _ in range(3)]
    model = nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(5))
    model(data[0][0])
    check_training(model, sgd, F.cross_entropy, data)


def test_convolutions_of_all_kinds_leave_the_bits_of_eager() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GELU(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AvgPool2d(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.PixelUnshuffle(2),
        nn.Hardswish(),
        nn.Dropout2d(0.2),
        nn.AdaptiveMaxPool2d(2),
        nn.Unflatten(1, (2, 8)),
        nn.Conv3d(2, 2, (3, 1, 2)),
        nn.Flatten(2),
        nn.Conv1d(2, 3, 3),
        nn.Flatten(),
        nn.LazyLinear(5),
    )
    data = [(torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))) for _ in range(3)]
    model(data[0][0])
    check_training(model, sgd, F.cross_entropy, data)


def test_hooks_on_gradients_are_part_of_the_step() -> None:
    """Eager runs them in every backward pass; copying a model loses them, so both get theirs."""
    models = [nn.Linear(12, 5), nn.Linear(12, 5)]
    models[1].load_state_dict(models[0].state_dict())

    def clamp(bias: torch.Tensor) -> None:
        bias.grad.clamp_(-0.01, 0.01)

    for model in models:
        model.weight.register_hook(lambda gradient: gradient * 2)
        model.bias.register_post_accumulate_grad_hook(clamp)
    model, twin = models
    optimizer, twin_optimizer = sgd(model), sgd(twin)
    data = classes()
    captured = capture_train_step(model, F.cross_entropy, optimizer, data[0])
    job = ReferenceJob(captured.slots)
    for batch in data:
        eager_step(twin, F.cross_entropy, twin_optimizer, batch)
        job.step(captured, batch, optimizer=optimizer)
        assert_same(dict(twin.named_parameters()), job.model_state())


MORE_OPTIMIZERS: dict[str, Any] = {
    "Adagrad": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "NAdam": {},
    "Adamax": {},
    "Adadelta": {},
    "Rprop": {},
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", MORE_OPTIMIZERS)
def test_other_optimizers_leave_the_bits_of_eager(name: str, foreach: bool) -> None:
    make, options = getattr(torch.optim, name), MORE_OPTIMIZERS[name]
    check_training(
        nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)),
        lambda m: make(m.parameters(), lr=0.01, foreach=foreach, **options),
        F.cross_entropy,
        classes(4),
    )
