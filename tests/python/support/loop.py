"""A training loop that tests run eagerly, and around a step."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

import laneway


def made(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4))
    return model, torch.optim.AdamW(model.parameters(), 1e-2)


def body_of(model, optimizer):
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return train


def batch():
    return torch.randn(4, 8), torch.randint(0, 4, (4,))


class Loop:
    """One run of a loop: eager's without a service. `out` is what the loop saw."""

    def __init__(self, service=None):
        self.model, self.optimizer = made()
        self.around = lambda body: body
        if service is not None:
            self.around = laneway.step(self.model, self.optimizer, service=service)
        self.body = body_of(self.model, self.optimizer)
        self.train = self.around(self.body)
        self.out = []

    def steps(self, count):
        for _ in range(count):
            self.out.append(self.train(*batch()).item())

    def see(self, *values):
        self.out.append(copy.deepcopy(values))
