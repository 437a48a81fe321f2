"""The loops of the cases sync_on_read and shared_generator of the bench loops; bench/paced.py runs
them.

Each has two steps in one process, which train the same and differ by one option. Of two epochs that
follow each other, one is the first step's and the other one the second step's: A B B A …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import laneway

from .loops import CHUNKS, is_first
from .models import make
from .scripts.record import Record

# An epoch: it trains and calls record.loss() at its end; True: with the case's first option.
Train = Callable[[bool], Any]


def main(record: Record, case: str, **options: Any) -> None:
    with laneway.embedded("1GiB") as service:
        make_train = {"sync_on_read": _evaluated, "shared_generator": _drawing}[case]
        train, steps = make_train(record, service, **options)
        for epoch in range(record.epochs):
            record.epoch()
            train(is_first(epoch))
        states = [step.state_dict()["model"] for step in steps]
        record.end([], [])
        for step in steps:
            step.close()
    for name, value in states[0].items():
        if not torch.equal(value, states[1][name]):
            raise RuntimeError(f"{case}: the two steps ended with another {name}")


def _evaluated(record: Record, service: laneway.Service) -> tuple[Train, list[Any]]:
    """resnet18. An epoch is a part of the steps between two evaluations; the evaluation is in the
    time of the last part. The first step has sync="manual" and a call of sync_to before the
    evaluation, the second one has sync="on_read"."""
    works = [make("resnet18"), make("resnet18")]
    batches = [works[0].batch(i) for i in range(record.batches)]
    steps = [
        laneway.train_step(w.model, w.loss_fn, w.optimizer, service=service, sync=sync)
        for w, sync in zip(works, ("manual", "on_read"))
    ]
    parts = [0, 0]

    def train(first: bool) -> None:
        index = 0 if first else 1
        step, model = steps[index], works[index].model
        for batch in batches:
            loss = step(*batch)
        parts[index] += 1
        if parts[index] % CHUNKS == 0:
            if first:
                step.sync_to(model)
            model.eval()
            with torch.no_grad():
                loss = F.cross_entropy(model(batches[0][0]), batches[0][1])
            model.train()
        record.loss(loss)

    return train, steps


def _drawing(record: Record, service: laneway.Service, dropout: bool) -> tuple[Train, list[Any]]:
    """mlp, with dropout before its last layer or without, called with one batch again and again.
    The first step has random="own", the second one random="shared"."""
    x, y = make("mlp").batch(0)
    steps = []
    for random in ("own", "shared"):
        torch.manual_seed(0)
        drawing = [nn.Dropout(0.1)] if dropout else []
        net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), *drawing, nn.Linear(128, 10))
        optimizer = torch.optim.AdamW(net.parameters())
        steps.append(laneway.train_step(net, F.cross_entropy, optimizer, service, random=random))

    def train(first: bool) -> None:
        step = steps[0 if first else 1]
        for _ in range(record.batches):
            record.loss(step(x, y).item())

    return train, steps
