"""The bytes of all requests that are being answered, by whichever protocol they came."""

from __future__ import annotations

from laneway.serve import limits
from laneway.serve.problem import Problem


class Room:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._held = 0

    def take(self, count: int) -> None:
        """Raises Problem at the bound; else the caller gives back as much."""
        if self._held + count > limits.BODIES_BYTES:
            why = f"requests with {limits.BODIES_BYTES} bytes are being answered: try again"
            raise Problem(429, why, limits.RETRY_S)
        self._held += count

    def give(self, count: int) -> None:
        self._held -= count
