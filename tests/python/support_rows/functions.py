"""Rows: functions of tensors inside a model, behind a linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial


class After(nn.Module):
    """A linear layer and a function of its output."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x))


def train(trial: Trial, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    batches = [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(3)]
    trial.train(lambda: After(function), batches)


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 0
    y[:, 1:3] += 1
    y[0] *= 2
    return y


def in_place(x: torch.Tensor) -> torch.Tensor:
    return x.mul(2).add_(1).clamp_(-0.5, 0.5).tanh_()


def by_mask(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x > 0] = 0.5
    return y


def out_given(x: torch.Tensor) -> torch.Tensor:
    room = torch.empty(8, 5)
    torch.mul(x.detach(), 2, out=room)
    return x + room


def conjugated(x: torch.Tensor) -> torch.Tensor:
    left = torch.view_as_complex(torch.stack([x, x * 2], -1))
    right = torch.view_as_complex(torch.stack([x, -x], -1))
    return (left.conj() * right).real + left.t().conj().t().imag


def positive(x: torch.Tensor) -> torch.Tensor:
    """A symmetric positive matrix of the output."""
    return x.t() @ x + torch.eye(5)


def transformed(x: torch.Tensor) -> torch.Tensor:
    from torch.func import grad, vmap

    return x + vmap(grad(lambda row: row.square().sum()))(x)


def jacobian(x: torch.Tensor) -> torch.Tensor:
    from torch.func import jacrev, vmap

    return x + vmap(jacrev(torch.sin))(x).sum(1)


def forward_mode(x: torch.Tensor) -> torch.Tensor:
    from torch.func import jvp

    return jvp(torch.sin, (x,), (torch.ones_like(x),))[1]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.sign()


ELEMENTWISE = Group(
    "Arithmetic and shapes",
    "In `cumprod`'s gradient torch looks for zeros and has a shorter formula where there are none; "
    "in a capture there is no data to look at, and the formula for all cases rounds differently.",
)
ELEMENTWISE.each(
    {
        "where, clamp, abs, sign": lambda x: torch.where(x > 0, x.clamp(-1, 1), 0.1 * x.abs()),
        "exp, log, sqrt, pow": lambda x: (x.exp() + x.square().sqrt()).log1p() + x.abs().pow(1.5),
        "sin, erf, lgamma, digamma": lambda x: x.sin() + x.erf() + (x.abs() + 1).lgamma(),
        "sums, means, variances, norms": lambda x: (
            x / (x.norm(dim=1, keepdim=True) + x.std(1, keepdim=True)) + x.mean() + x.var(0)
        ),
        "logsumexp, softmax, cumsum, prod": lambda x: (
            x.cumsum(1) + x.softmax(1) - x.logsumexp(1, keepdim=True) + x.prod(1, True)
        ),
        "cumprod": lambda x: x.cumprod(1),
        "sort, topk, max, median": lambda x: (
            x.sort(1)[0] + x.topk(5, 1)[0] + x.max(1, keepdim=True)[0] + x.median(1, True)[0]
        ),
        "argmax, argsort, bucketize": lambda x: (
            x.gather(1, x.argsort(1))
            + x.argmax(1, keepdim=True)
            + torch.bucketize(x.detach(), torch.tensor([-0.5, 0.5]))
        ),
        "gather, scatter, index_select": lambda x: (
            x.gather(1, torch.tensor([[0, 1, 2, 3, 3]]).expand(8, 5))
            + torch.zeros(8, 5).scatter_add(1, torch.zeros(8, 5, dtype=torch.int64), x)
            + x.index_select(1, torch.tensor([4, 3, 2, 1, 0]))
        ),
        "index_put, index_add, index_copy": lambda x: (
            torch.zeros_like(x).index_put((torch.tensor([0, 1, 1]),), x[:3], accumulate=True)
            + x.index_add(0, torch.tensor([1, 1]), x[:2])
        ),
        "masked_fill, tril, triu, flip, roll": lambda x: (
            x.masked_fill(x < 0, 0.0).tril() + x.flip(1).triu() + x.roll(1, 0)
        ),
        "cat, stack, split, chunk, unbind": lambda x: (
            torch.cat(x.split([2, 3], 1)[::-1], 1) + torch.stack(x.unbind(0), 0)
        ),
        "view, reshape, permute, expand, repeat": lambda x: (
            x.t().reshape(8, 5) + x.view(-1).view(5, 8).permute(1, 0) + x[:1].expand(8, 5)
        ),
        "as_strided, unfold, diagonal": lambda x: (
            x.as_strided((8, 5), (5, 1))
            + F.pad(x, (1, 1)).unfold(1, 3, 1).sum(-1)
            + x.diagonal().sum()
        ),
        "einsum, matmul, bmm, addmm, outer": lambda x: (
            torch.einsum("bi,bj->bij", x, x).sum(1) + x @ (x.t() @ x) * 0.01
        ),
        "cdist, cosine similarity, pairwise distance": lambda x: (
            x + torch.cdist(x, x.tanh()).mean(1, True) + F.cosine_similarity(x, x.flip(0))[:, None]
        ),
        "linalg: inverse, solve, cholesky": lambda x: (
            x @ torch.linalg.inv(positive(x)) + x @ torch.linalg.cholesky(positive(x))
        ),
        "linalg: svd, eigh, qr, det": lambda x: (
            x * torch.linalg.svdvals(x)[0]
            + torch.linalg.eigvalsh(positive(x))
            + torch.linalg.qr(positive(x))[1][0]
            + torch.linalg.det(positive(x))
        ),
        "matrix_exp": lambda x: x @ torch.linalg.matrix_exp(positive(x) * 0.01),
        "fft, rfft, stft": lambda x: torch.fft.fft(x).abs() + torch.fft.rfft(x).abs().sum(1, True),
        "complex numbers, conjugate views": conjugated,
        "histogram, geqrf, ormqr, put_": lambda x: (
            x * torch.histogram(x.detach(), 5, range=(-1.0, 1.0))[0]
            + x @ torch.ormqr(*torch.geqrf(x.detach()[:5]), torch.eye(5))
            + torch.zeros(5).put_(torch.tensor([3, 1]), x.detach()[0, :2])
        ),
        "complex numbers of Python": lambda x: (torch.exp(1j * x) * (2 - 1j)).imag,
        "bucketed means (scatter_reduce)": lambda x: (
            x + torch.zeros(5).scatter_reduce(0, torch.tensor([0, 1, 1, 2, 4]), x[0], "mean")
        ),
        "integer arithmetic, bitwise": lambda x: (
            x * ((torch.arange(5) % 3) ^ 1) + (torch.arange(5) // 2 << 1)
        ),
        "meshgrid, linspace, arange, eye": lambda x: (
            x + torch.meshgrid(torch.linspace(0, 1, 8), torch.arange(5.0), indexing="ij")[1]
        ),
        "tensors made from literals": lambda x: x * torch.tensor([1.0, 2, 3, 4, 5]) + 0.5,
        "len(), .shape and other sizes in Python": lambda x: x * len(x) / x.shape[1] + x.dim(),
    },
    train,
)

IN_PLACE = Group("Writing in place, and autograd")
IN_PLACE.each(
    {
        "in-place arithmetic": in_place,
        "assignment to slices and elements": assigned,
        "assignment by a mask": by_mask,
        "views changed in place (t_, squeeze_, unsqueeze_)": lambda x: (
            x.clone().t_().contiguous().t().unsqueeze_(0).squeeze_(0)
        ),
        "results into out=": out_given,
        "detach, no_grad": lambda x: x - (x.detach() * 0.5).mean(),
        "custom autograd.Function": lambda x: Doubled.apply(x),
        "autograd.grad inside the model, with create_graph": lambda x: (
            x + torch.autograd.grad(x.square().sum(), x, create_graph=True)[0]
        ),
        "torch.func: vmap and grad": transformed,
        "torch.func: jacrev": jacobian,
        "torch.func: jvp (forward mode)": forward_mode,
    },
    train,
)

GROUPS = [ELEMENTWISE, IN_PLACE]
