"""InferenceOptions: what an inference is made with, besides its model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from laneway.errors import InvalidInput
from laneway.jobs.calls.weight_files import Paths
from laneway.jobs.control.scheduling import UNSAID, Scheduling
from laneway.jobs.service import Service
from laneway.jobs.verify.verification import check_verify

# What capture_inference gets as train_mode, by the names that users give.
MODES: dict[str, bool | None] = {"eval": False, "as_is": None}


@dataclasses.dataclass(frozen=True)
class InferenceOptions:
    """The options of inference(), whose docstring explains them."""

    service: Service | None = None
    name: str | None = None
    scheduling: Scheduling = UNSAID
    admission_timeout: float | None = None
    closure: Callable[..., Any] | None = None
    max_variants: int = 8
    shared: bool = False
    replay: str = "auto"
    random: str | None = None
    sync: str = "on_read"
    mode: str = "eval"
    weights: Paths | None = None
    verify: bool | int | None = None

    def __post_init__(self) -> None:
        check_verify(self.verify, self.shared)
        if self.mode not in MODES:
            raise InvalidInput(f"mode = {self.mode!r}: give one of {', '.join(map(repr, MODES))}")
