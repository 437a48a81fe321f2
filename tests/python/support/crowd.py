"""More jobs than a pool holds: small trainings with large images, in turn, and the same with room
for all of them, to compare with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import laneway
from support.eager import assert_same

WIDTH = 20_000  # an image of 15 MiB with Adam's state
ROOM = "64MiB"  # for two of them, or three


class Crowd:
    """`count` trainings, made when they are first asked for."""

    def __init__(self, service: Any, count: int, width: int = WIDTH) -> None:
        self.names = [f"crowd-{i}" for i in range(count)]
        self.losses: dict[str, list[float]] = {name: [] for name in self.names}
        self._width = width
        self.steps = {name: self._step(service, seed) for seed, name in enumerate(self.names)}

    def _step(self, service: Any, seed: int) -> Any:
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(self._width, 64), nn.BatchNorm1d(64), nn.Dropout(0.2), nn.Linear(64, 3)
        )
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        return laneway.train_step(
            model,
            nn.functional.cross_entropy,
            optimizer,
            service=service,
            name=self.names[seed],
            random="own",
        )

    def batch(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(7 * len(self.losses[name]) + len(name))
        inputs = torch.randn(6, self._width, generator=generator)
        return inputs, torch.randint(0, 3, (6,), generator=generator)

    def train(self, name: str) -> None:
        self.losses[name].append(self.steps[name](*self.batch(name)).item())

    def rounds(self, count: int) -> None:
        for _ in range(count):
            for name in self.names:
                self.train(name)

    def states(self) -> dict[str, Any]:
        return {name: step.state_dict() for name, step in self.steps.items()}

    def close(self) -> None:
        for step in self.steps.values():
            step.close()

    def assert_undisturbed(self) -> None:
        """The losses and states are those of jobs that were never pushed out."""
        with laneway.embedded("1GiB", staging=0) as service:
            twin = Crowd(service, len(self.names), self._width)
            for name in self.names:
                for _ in self.losses[name]:
                    twin.train(name)
            assert self.losses == twin.losses
            expected = twin.states()
        for name, state in self.states().items():
            assert_same(expected[name], state, name)


def lines(service: Any) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in service.status()["jobs"]}


def places(service: Any) -> dict[str, set[str]]:
    """By job: which of pool, store and spill its image is in."""
    return {
        name: {place for place in ("pool", "store", "spill") if job["image"][f"{place}_bytes"]}
        for name, job in lines(service).items()
    }
