"""The exceptions that laneway raises.

Every message names the thing, the value, the limit and what to do. All of them derive from
`laneway.Error`, so that a caller can catch everything of ours with one clause.
"""

from __future__ import annotations


class Error(Exception):
    """Base of everything that laneway raises on purpose."""


class Refused(Error):
    """The service will not take this job or request; the message says what would have to change."""


class CaptureError(Error):
    """A step could not be recorded as a graph.

    `operator` is the operator that stood in the way ("aten::nonzero") and `source` the user's line
    ("train.py:42 in forward"), each None when it is not known. `remedy` says what to do instead.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str | None = None,
        source: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.operator = operator
        self.source = source
        self.remedy = remedy
        text = message
        if operator:
            text += f" (operator {operator})"
        if source:
            text += f" at {source}"
        if remedy:
            text += f"; {remedy}"
        super().__init__(text)

    def at(self, operator: str, source: str) -> CaptureError:
        """The same error with operator and line."""
        return type(self)(
            self.message, operator=operator, source=source or None, remedy=self.remedy
        )


class GraphError(Error):
    """A graph was malformed: unknown operators, lying sizes, writes that it does not declare."""


class LayoutError(GraphError):
    """An operator laid out what it returns otherwise than a capture expected; the iteration was
    taken back. Calls capture again by themselves; a `submit` in flight cannot."""


class OutOfMemory(Error):
    """A job cannot fit even an otherwise empty pool; the message has the arithmetic."""


class ServiceUnavailable(Error):
    """There is no service at the address, or it went away."""


class JobFailed(Error):
    """An iteration failed; the job goes no further."""


class DeviceLost(JobFailed):
    """The device failed for good while the job ran. A daemon goes on with another worker; an
    embedded service is over, and so is the device for this process."""


class Quarantined(JobFailed):
    """The job brought down a worker twice at the same place and is not run again."""


class InvalidInput(Error, ValueError):
    """An argument has a shape, dtype, structure or value that the captured step cannot take."""
