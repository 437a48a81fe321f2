"""A notice for a process that captures with another minor version of torch than its lanewayd runs:
bits are promised for equal ones only."""

from __future__ import annotations

import warnings
from typing import Any

from laneway.native.torch_versions import minor_of


class TorchNotice:
    """Of one connection; warns at most once. `version` is this process's torch; "" when it has
    none, or is the service itself: then nothing is said."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._told = not version

    def heed(self, service: Any) -> None:
        """To be called before a job is made. While no worker has said its version, it asks again
        with the next job."""
        if self._told:
            return
        runs = _version_of(service.status())
        if not runs:
            return
        self._told = True
        if runs == self._version or minor_of(runs) == minor_of(self._version) != "":
            return
        warnings.warn(
            f"this process captures with torch {self._version}, and the service runs torch {runs}: "
            "results are bit-equal to this process's only with the same minor version on both "
            "sides, and a graph that names what one of them lacks is refused",
            RuntimeWarning,
            stacklevel=3,
        )


def _version_of(status: dict[str, Any]) -> str:
    """The torch that runs the jobs; "" when no worker is there, or it does not say."""
    for worker in status["workers"]:
        if worker["role"] == "active":
            return worker["torch"]["running"] or ""
    return ""
