"""Rows: operators that draw random numbers, and activation checkpointing."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from support.support_table import Group
from support.trial import Trial
from support_rows.functions import train

DRAWS = Group(
    "Random numbers",
    "A step draws from torch's default generator, or from the one that an operator is given, and "
    "moves it as eager does, also between the draws of data loaders and of other steps. With "
    'random="own" a job draws from a generator of its own, a copy of the default one when the step '
    "was made. What the rows say holds for both.",
)
DRAWS.each(
    {
        "rand, rand_like": lambda x: x * torch.rand(5) + torch.rand_like(x),
        "randn, randn_like": lambda x: x * torch.randn(5) + torch.randn_like(x),
        "randint, randint_like": lambda x: x * torch.randint(0, 3, (5,)) + torch.randint_like(x, 4),
        "randperm": lambda x: x[:, torch.randperm(5)],
        "normal, normal_": lambda x: x + torch.normal(0.0, 1.0, (5,)) + torch.empty(5).normal_(),
        "normal of tensors": lambda x: x + torch.normal(x.detach(), 1.0),
        "uniform_, exponential_, geometric_": lambda x: (
            x
            + torch.empty(5).uniform_(-1, 1)
            + torch.empty(5).exponential_()
            + torch.empty(5).geometric_(0.5)
        ),
        "cauchy_, log_normal_": lambda x: (
            x + torch.empty(5).cauchy_() * 0.01 + torch.empty(5).log_normal_()
        ),
        "bernoulli": lambda x: x * torch.bernoulli(torch.full((5,), 0.5)),
        "bernoulli_": lambda x: x * torch.empty(5).bernoulli_(0.5),
        "multinomial": lambda x: x + torch.multinomial(torch.softmax(x.detach(), 1), 1),
        "poisson": lambda x: x + torch.poisson(torch.full((5,), 0.5)),
        "binomial": lambda x: x + torch.binomial(torch.full((5,), 4.0), torch.full((5,), 0.5)),
        # Said outright: the default is the process's, and some libraries change it.
        "torch.distributions, checking its arguments": lambda x: torch.distributions.Normal(
            x, x.exp(), validate_args=True
        ).rsample(),
        "torch.distributions.Normal, validate_args=False": lambda x: torch.distributions.Normal(
            x, x.exp(), validate_args=False
        ).rsample(),
        "torch.distributions.Gamma, validate_args=False": lambda x: torch.distributions.Gamma(
            x.exp(), torch.ones(5), validate_args=False
        ).rsample(),
        "torch.distributions.Categorical, validate_args=False": lambda x: (
            x + torch.distributions.Categorical(logits=x, validate_args=False).sample()[:, None]
        ),
        "gumbel_softmax": lambda x: x + F.gumbel_softmax(x),
        "rrelu, in training": lambda x: F.rrelu(x, training=True),
        "drawing inside fork_rng": lambda x: x + forked(),
        "a generator that the step makes": lambda x: (
            x + torch.rand(5, generator=torch.Generator().manual_seed(3))
        ),
        "manual_seed in the step": lambda x: x + seeded(),
    },
    train,
)


def forked() -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        return torch.rand(5)


def seeded() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand(5)


class Checkpointed(nn.Module):
    """Blocks that are computed again in the backward pass."""

    def __init__(self, dropout: float, **options: object) -> None:
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(dropout))
        self.last = nn.Linear(16, 5)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(checkpoint(self.block, self.first(x), **self.options))


class InSegments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.1), nn.Tanh()) for _ in range(4)]
        self.body, self.last = nn.Sequential(*layers), nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(checkpoint_sequential(self.body, 2, x, use_reentrant=False))


def batches() -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(3)]


CHECKPOINTS = Group("Activation checkpointing")


def with_model(trial: Trial, case: dict) -> None:
    trial.train(lambda: Checkpointed(**case), batches())


CHECKPOINTS.each(
    {
        "without dropout": {"dropout": 0.0, "use_reentrant": False},
        "with dropout": {"dropout": 0.3, "use_reentrant": False},
        "reentrant, without dropout": {"dropout": 0.0, "use_reentrant": True},
        "reentrant, with dropout": {"dropout": 0.3, "use_reentrant": True},
        "with dropout, random state not kept": {
            "dropout": 0.3,
            "use_reentrant": False,
            "preserve_rng_state": False,
        },
    },
    with_model,
)


@CHECKPOINTS("checkpoint_sequential, with dropout")
def segments(trial: Trial) -> None:
    trial.train(InSegments, batches())


GROUPS = [DRAWS, CHECKPOINTS]
