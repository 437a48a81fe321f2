"""Problem: why a request is not answered, with the code that HTTP has for it."""

from __future__ import annotations

from laneway import errors


class Problem(Exception):
    """`code` is HTTP's: 400 the request is wrong, 404 there is no such model, 409 the model or the
    service refuses, 429 too many wait, 503 the service is away, 504 the deadline has passed."""

    def __init__(self, code: int, why: str, retry_s: int | None = None) -> None:
        super().__init__(why)
        self.code, self.why, self.retry_s = code, why, retry_s


def of_service(error: errors.Error, retry_s: int) -> Problem:
    """What the service said, in its own sentence."""
    if isinstance(error, errors.ServiceUnavailable):
        return Problem(503, str(error), retry_s)
    return Problem(409, str(error))
