"""What is asked of a service by a command of its own, as those need it who wait until it is so."""

from __future__ import annotations

from typing import Any, Protocol


class Commanded(Protocol):
    """A Service (laneway.jobs.service), seen from below."""

    def command(self, what: str, text: str) -> None: ...

    def status(self) -> dict[str, Any]: ...
