"""Hugging Face's models, trained in a closure that is given the batch as one dictionary, leave the
bits of eager.

With the model's own loss (`step(**batch)`) they are rows of python/SUPPORT.md, as torchvision's
families are: see support_rows/networks.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import laneway
from support.networks import HUGGING_FACE
from support.trial import SAME, Outcome, Trial, adamw, outcome_of


def own_loss(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict) -> torch.Tensor:
    """A step as people write it for these models."""
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_hugging_face_in_a_closure(name: str) -> None:
    make, batch = HUGGING_FACE[name]

    def train(trial: Trial) -> None:
        batches = [(batch(),) for _ in range(3)]
        trial.train(make, batches, None, adamw, own_loss)

    with laneway.embedded("256MiB") as service:
        assert outcome_of(train, service) == Outcome(SAME)
