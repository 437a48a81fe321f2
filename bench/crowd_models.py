"""Models of many shapes for the bench crowd: number i is always the same one, and no two are alike.

Inputs have the shape [ROWS, FEATURES]; outputs [ROWS, CLASSES]."""

from __future__ import annotations

import random

import torch
from torch import nn

FEATURES = 64
CLASSES = 10
ROWS = 4
ADAM_COPIES = 3  # of a parameter in a training's image: itself and two moments


def make_model(number: int, training: bool) -> nn.Module:
    """Between 4 and 20 MiB with its optimizer's state."""
    chance = random.Random(number)
    width = (512 if training else 768) + 16 * chance.randrange(24) + number
    torch.manual_seed(number)
    layers: list[nn.Module] = [nn.Linear(FEATURES, width)]
    for _ in range(1 if training else chance.randint(1, 3)):
        layers += [nn.Linear(width, width), chance.choice([nn.ReLU, nn.GELU, nn.SiLU])()]
        if chance.random() < 0.5:
            layers.append(nn.BatchNorm1d(width))
        if training:
            layers.append(nn.Dropout(0.1))
    model = nn.Sequential(*layers, nn.Linear(width, CLASSES))
    return model.train(training)


def image_bytes(model: nn.Module, training: bool) -> int:
    """About: alignment is not in it."""
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    return parameters * (ADAM_COPIES if training else 1) + buffers


def batch(number: int, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number * 100_003 + iteration)
    inputs = torch.randn(ROWS, FEATURES, generator=generator)
    return inputs, torch.randint(0, CLASSES, (ROWS,), generator=generator)
