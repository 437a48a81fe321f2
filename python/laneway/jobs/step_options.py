"""StepOptions: what a training step is made with, besides its model, loss and optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from laneway.jobs.calls import draws
from laneway.jobs.calls.job import check_replay
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.forms.alike import Alike
from laneway.jobs.mirrors.mirror import check_sync
from laneway.jobs.service import Service
from laneway.jobs.verify.verification import check_verify


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """The options of train_step, whose docstring explains them."""

    service: Service | None
    name: str | None
    scheduling: Scheduling
    closure: Callable[..., Any] | None
    admission_timeout: float | None
    keep_gradients: bool | None
    max_variants: int
    shared: bool
    replay: str
    random: str | None
    sync: str
    verify: bool | int | None = None
    like: Alike | None = None  # the captures of the step that this one is like

    def __post_init__(self) -> None:
        check_replay(self.replay)
        draws.check_random(self.random)
        check_sync(self.sync)
        check_verify(self.verify, self.shared)
