"""The exceptions that laneway raises.

All of them derive from `laneway.Error`. Every message names the thing, its value, the limit, and
what the user can do.
"""

from __future__ import annotations


class Error(Exception):
    """Base class of all exceptions of this package."""


class Refused(Error):
    """The service refused the job or the request. The message says what must change."""


class CaptureError(Error):
    """The capture could not record a step or an inference as a graph.

    `operator` is the operator at fault ("aten::nonzero"), `source` is the user's line ("train.py:42
    in forward"), `remedy` is what to do instead; each is None when it is not known.
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
        """A copy of the error with `operator` and `source`."""
        return type(self)(
            self.message, operator=operator, source=source or None, remedy=self.remedy
        )


class GraphError(Error):
    """The service found a graph invalid: an unknown operator, a wrong size, an undeclared write."""


class LayoutError(GraphError):
    """An operator returned a tensor with other strides, or of another dtype, than the capture
    expected, and the iteration was rolled back. A call captures again and raises nothing. A Future
    of `submit` raises this error, because later calls may be in flight behind it."""


class OutOfMemory(Error):
    """The job needs more memory than the whole pool has. The message has the arithmetic."""


class ServiceUnavailable(Error):
    """No service answers at the address, or the service has ended or was closed."""


class JobFailed(Error):
    """An iteration failed, and the job runs no further iterations."""


class DeviceLost(JobFailed):
    """The device failed permanently while the job ran. A daemon continues with another worker. An
    embedded service has ended, and this process cannot use the device again."""


class Quarantined(JobFailed):
    """The job made a worker process crash twice at the same place and is not run again."""


class VerificationError(Error):
    """An iteration that ran in eager execution as well (`verify` of train_step) gave other bits.
    The state of the job is what the graph made of it.

    `name` is what differs ("model/0.weight"), `index` where in it, `given` and `expected` are the
    graph's value and eager's; each is None where it has no meaning.
    """

    def __init__(
        self,
        message: str,
        iteration: int,
        name: str | None = None,
        index: tuple[int, ...] | None = None,
        given: object = None,
        expected: object = None,
    ) -> None:
        super().__init__(message)
        self.iteration, self.name, self.index = iteration, name, index
        self.given, self.expected = given, expected


class InvalidInput(Error, ValueError):
    """An argument has a shape, dtype, structure or value that the function does not accept."""
