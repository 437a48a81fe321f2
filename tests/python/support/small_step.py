"""A training of a few parameters, whose first iteration has ended."""

import torch
from torch import nn

import laneway


def small_step(service, name, **options):
    model = nn.Linear(8, 3)
    step = laneway.train_step(
        model,
        nn.functional.cross_entropy,
        torch.optim.SGD(model.parameters(), 0.1),
        service=service,
        name=name,
        **options,
    )
    step(torch.randn(4, 8), torch.randint(0, 3, (4,)))
    return step
