"""A model of Hugging Face's, trained in a closure that is given the batch as one dictionary, leaves
the bits of eager.

Trained with their own loss (`step(**batch)`), all families of the library are rows of
python/SUPPORT.md: see support_rows/networks.py.
"""

from __future__ import annotations

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


def test_hugging_face_in_a_closure() -> None:
    make, batch = HUGGING_FACE["gpt2"]

    def train(trial: Trial) -> None:
        batches = [(batch(),) for _ in range(3)]
        trial.train(make, batches, None, adamw, own_loss)

    with laneway.embedded("256MiB") as service:
        assert outcome_of(train, service) == Outcome(SAME)
