"""Steps of several models and optimizers as functions that run eagerly and captured."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(16, 1)
    )


def generator() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))


Made = tuple[list[nn.Module], list[torch.optim.Optimizer], Callable[..., Any]]


def gan() -> Made:
    netD, netG = discriminator(), generator()
    optD = torch.optim.Adam(netD.parameters(), lr=0.02, betas=(0.5, 0.999))
    optG = torch.optim.Adam(netG.parameters(), lr=0.03, betas=(0.5, 0.999))
    loss_of = F.binary_cross_entropy_with_logits

    def train(real):
        netD.zero_grad()
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        loss_real = loss_of(netD(real), ones)
        loss_real.backward()
        fake = netG(torch.randn(len(real), 3))
        loss_fake = loss_of(netD(fake.detach()), zeros)
        loss_fake.backward()
        optD.step()
        netG.zero_grad()
        loss = loss_of(netD(fake), ones)  # through the updated discriminator
        loss.backward()
        optG.step()
        return loss_real + loss_fake, loss

    return [netD, netG], [optD, optG], train


def distillation() -> Made:
    teacher = discriminator().eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.2), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)

    def train(x):
        optimizer.zero_grad()
        loss = F.mse_loss(student(x), teacher(x))
        loss.backward()
        optimizer.step()
        return loss

    return [teacher, student], [optimizer], train


def actor_and_critic() -> Made:
    trunk, actor, critic = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 1)
    # Both optimizers have the trunk, and each its own state for it.
    of_actor = torch.optim.Adam([*trunk.parameters(), *actor.parameters()], lr=0.01)
    of_critic = torch.optim.SGD([*trunk.parameters(), *critic.parameters()], 0.05, momentum=0.9)

    def train(x):
        of_actor.zero_grad()
        hidden = F.dropout(torch.tanh(trunk(x)), 0.1)
        advantage = x.sum(1, keepdim=True) - critic(hidden)
        policy = -(F.log_softmax(actor(hidden), 1) * advantage.detach()).mean()
        policy.backward(retain_graph=True)
        of_actor.step()
        of_critic.zero_grad()
        value = (x.mean(1, keepdim=True) - critic(torch.tanh(trunk(x)))).pow(2).mean()
        value.backward()
        of_critic.step()
        return policy, value

    return [trunk, actor, critic], [of_actor, of_critic], train


def average() -> Made:
    model = discriminator()
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def train(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(ema.parameters(), model.parameters()):
                kept.mul_(0.9).add_(new, alpha=0.1)
            for kept, new in zip(ema.buffers(), model.buffers()):
                kept.copy_(new)
        return loss

    return [model, ema], [optimizer], train


def layer_by_layer() -> Made:
    layers = [nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.03) for layer in layers]

    def train(x):
        good, bad = x, F.dropout(x, 0.5)
        losses = []
        for layer, optimizer in zip(layers, optimizers):
            a, b = (torch.relu(layer(F.normalize(part))) for part in (good, bad))
            margin = torch.cat([1 - a.pow(2).mean(1), b.pow(2).mean(1) - 1])
            loss = torch.log(1 + torch.exp(margin)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            good, bad = layer(good).detach(), layer(bad).detach()  # of the updated layer
            losses.append(loss)
        return losses

    return layers, optimizers, train


def clamped() -> Made:
    """Weights that are clamped behind the optimizer's step, and read again."""
    critic, other = discriminator(), generator()
    of_critic = torch.optim.RMSprop(critic.parameters(), lr=0.01)
    of_other = torch.optim.RMSprop(other.parameters(), lr=0.01)

    def train(x):
        of_critic.zero_grad()
        fake = other(torch.randn(len(x), 3))
        loss = critic(fake.detach()).mean() - critic(x).mean()
        loss.backward()
        of_critic.step()
        for parameter in critic.parameters():
            parameter.data.clamp_(-0.1, 0.1)
        of_other.zero_grad()
        second = -critic(fake).mean()
        second.backward()
        of_other.step()
        return loss, second

    return [critic, other], [of_critic, of_other], train


MAKERS = [gan, distillation, actor_and_critic, average, layer_by_layer, clamped]
BATCHES = [torch.linspace(-1, 1, 48).reshape(8, 6).mul(k) for k in (1, 2, -1, 0.5, 3)]


def made(maker: Callable[[], Made], seed: int = 1) -> Made:
    torch.manual_seed(seed)
    return maker()


def state_of(models: list[nn.Module], optimizers: list[torch.optim.Optimizer]) -> dict[str, Any]:
    return {
        "model": [model.state_dict() for model in models],
        "optimizer": [optimizer.state_dict() for optimizer in optimizers],
        "random": torch.get_rng_state(),
    }


def eager(maker: Callable[[], Made], batches: list[torch.Tensor] = BATCHES) -> tuple[list, dict]:
    models, optimizers, train = made(maker)
    losses = [train(x) for x in batches]
    return losses, state_of(models, optimizers)
