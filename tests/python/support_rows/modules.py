"""Rows: what a model may be made of besides layers: tied and frozen parameters, buffers, hooks,
parametrizations, wrappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from support.support_table import Group
from support.trial import Trial, adamw

MODELS = Group("Parameters, buffers, hooks, parametrizations")


def batches() -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(3)]


def train(trial: Trial, make: Callable[[], nn.Module]) -> None:
    trial.train(make, batches(), make_optimizer=adamw)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 12), nn.Linear(12, 12)
        self.second.weight = self.first.weight
        self.last = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x).relu()))


class Shared(nn.Module):
    """One layer used twice, another not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.last, self.unused = nn.Linear(12, 12), nn.Linear(12, 5), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(self.body(x).relu()))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 5))
    model[0].requires_grad_(False)
    return model


class RunningMean(nn.Module):
    """Buffers assigned anew, written through a view, in place, and read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.register_buffer("mean", torch.zeros(12))
        self.register_buffer("pair", torch.zeros(2, 12))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("hidden", torch.ones(12), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.pair[0].copy_(self.mean)
        self.pair[1].add_(x.detach().amax(0) / self.steps)
        self.hidden.mul_(0.9)
        return self.linear(x * self.hidden - self.pair.sum(0))


class Queue(nn.Module):
    """A ring of keys with a pointer that is a tensor, as in contrastive learning."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.register_buffer("keys", torch.zeros(16, 5))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self.linear(x)
        places = (self.at + torch.arange(8)) % 16
        self.keys.index_copy_(0, places, output.detach())
        self.at.copy_((self.at + 8) % 16)
        return output + self.keys.mean(0)


class PointerInPython(Queue):
    """The same with a pointer that is read into Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self.linear(x)
        start = int(self.at)
        self.keys[start : start + 8] = output.detach()
        self.at[...] = (start + 8) % 16
        return output + self.keys.mean(0)


class Counted(nn.Module):
    """A number of Python's that the model counts up by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x) * (1.0 / self.calls)


class PlainTensor(nn.Module):
    """A tensor that is an attribute, neither parameter nor buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.scale = torch.linspace(0, 1, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale


class WrittenTensor(PlainTensor):
    """The same, written in every step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.mul_(0.9)
        return self.linear(x) * self.scale


class ZeroDimensional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.scale, self.none = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.empty(0, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale + self.none.sum()


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 12, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(torch.complex64) @ self.weight.t()).abs()


def hooked(kind: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 5))
        if kind == "forward":
            model[0].register_forward_hook(lambda module, args, output: output * 0.5)
            model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        elif kind == "backward":
            model[0].register_full_backward_hook(lambda module, into, out: (into[0],))
            model[2].register_full_backward_pre_hook(lambda module, out: (out[0] * 0.5,))
        elif kind == "tensor":
            model[0].weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        else:
            model[0].weight.register_post_accumulate_grad_hook(_halve)
        return model

    return make


def _halve(parameter: torch.Tensor) -> None:
    parameter.grad.mul_(0.5)


def stepping_hooks() -> nn.Module:
    """The optimizer's step inside the backward pass."""
    model = nn.Linear(12, 5)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(_descend)
    return model


@torch.no_grad()
def _descend(parameter: torch.Tensor) -> None:
    parameter.sub_(parameter.grad, alpha=0.1)


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).t()


def parametrized() -> nn.Module:
    model = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 5))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    return model


def pruned() -> nn.Module:
    model = nn.Linear(12, 5)
    prune.l1_unstructured(model, "weight", 0.3)
    return model


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = {name: p * 0.5 for name, p in self.body.named_parameters()}
        return torch.func.functional_call(self.body, weights, (x,))


class LowRank(nn.Module):
    """A frozen layer with a trained correction of low rank."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(12, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(12, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.up(self.down(x)) * 0.5


class Experts(nn.Module):
    """A mixture of experts, all computed, weighted by a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(12, 3)
        self.experts = nn.ModuleList(nn.Linear(12, 5) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(1)
        top = weights.topk(2, 1).indices
        kept = weights * torch.zeros_like(weights).scatter(1, top, 1.0)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        return (outputs * kept.unsqueeze(2)).sum(1)


class Routed(Experts):
    """A mixture of experts that sends each only its own examples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice = self.gate(x).argmax(1)
        output = x.new_zeros(len(x), 5)
        for number, expert in enumerate(self.experts):
            mine = choice == number
            output[mine] = expert(x[mine])
        return output


class ByMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.linear(x), 0.5, self.training) if self.training else self.linear(x)


def orthogonal() -> nn.Module:
    return nn.Sequential(parametrizations.orthogonal(nn.Linear(12, 12)), nn.Linear(12, 5))


MODELS.each(
    {
        "tied parameters": Tied,
        "a layer used twice, another unused": Shared,
        "frozen parameters": frozen,
        "0-dimensional and empty parameters": ZeroDimensional,
        "complex parameters": Complex,
        "buffers assigned anew, written in place and through views": RunningMean,
        "a queue of keys in a buffer, its pointer a tensor": Queue,
        "a queue of keys in a buffer, its pointer read into Python": PointerInPython,
        "a tensor that is neither parameter nor buffer": PlainTensor,
        "a tensor that is neither parameter nor buffer, written in every step": WrittenTensor,
        "a counter of Python's in the model": Counted,
        "training and evaluation differ (self.training)": ByMode,
        "forward hooks and pre-hooks": hooked("forward"),
        "full backward hooks and pre-hooks": hooked("backward"),
        "hooks on a parameter's gradient": hooked("tensor"),
        "hooks after a gradient is accumulated": hooked("accumulated"),
        "parametrization": parametrized,
        "parametrizations.spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(12, 5)),
        "parametrizations.weight_norm": lambda: parametrizations.weight_norm(nn.Linear(12, 5)),
        "parametrizations.orthogonal": orthogonal,
        "nn.utils.spectral_norm": lambda: nn.utils.spectral_norm(nn.Linear(12, 5)),
        "nn.utils.weight_norm": lambda: nn.utils.weight_norm(nn.Linear(12, 5)),
        "pruning masks": pruned,
        "functional_call with other weights": Functional,
        "low-rank adaptation of a frozen layer": LowRank,
        "mixture of experts, all computed": Experts,
        "mixture of experts, examples routed by data": Routed,
    },
    train,
)


@MODELS("updates in hooks of the backward pass")
def in_backward(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        return loss

    trial.train(stepping_hooks, batches(), None, closure=closure)


@MODELS("a loss module with parameters of its own")
def loss_module(trial: Trial) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(output * self.scale, target)

    losses = [Scaled(), Scaled()]
    made: list[nn.Module] = []

    def make(model: nn.Module) -> torch.optim.Optimizer:
        made.append(model)
        return torch.optim.SGD([*model.parameters(), *losses[len(made) - 1].parameters()], lr=0.1)

    class Chosen(nn.Linear):
        pass

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return losses[len(made) - 1](output, target)

    trial.train(lambda: Chosen(12, 5), batches(), loss_fn, make)


GROUPS = [MODELS]
