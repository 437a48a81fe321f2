"""CompileOptions: the options of torch.compile(..., backend="laneway", options={…})."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

from laneway.errors import InvalidInput, ServiceUnavailable
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.service import Service, connect, default_service


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """The options, with their defaults.

    - `name`: the name of the jobs. None: each job is named after its function and line.
    - `address`: the address of a service. None: $LANEWAY_ADDRESS; or a daemon at the default
      address; or a service embedded in this process.
    - `priority`, `weight`, `job_class`, `max_variants`, `admission_timeout`: those of
      laneway.inference.
    - `strict`: code that cannot run as a job raises an error instead of running eagerly with a
      warning."""

    name: str | None = None
    priority: int = 0
    weight: float = 1.0
    job_class: str | None = None
    address: str | None = None
    max_variants: int = 8
    admission_timeout: float | None = None
    strict: bool = False

    @staticmethod
    def of(given: dict[str, Any] | None) -> CompileOptions:
        """The options that `given` sets. Raises InvalidInput: for an unknown option with a list of
        the known ones, for a wrong value with the values that are allowed."""
        options = dict(given or {})
        for name in options:
            if name not in _CHECKS:
                raise InvalidInput(
                    f"option {name!r} is not one of the backend laneway; it takes "
                    + ", ".join(_CHECKS)
                )
        for name, value in options.items():
            fits, wanted = _CHECKS[name]
            if value is not None and not fits(value):
                raise InvalidInput(f"option {name} = {value!r}: it must be {wanted}")
        return CompileOptions(**{k: v for k, v in options.items() if v is not None})

    def __post_init__(self) -> None:
        _ = self.scheduling  # checks its limits

    @property
    def scheduling(self) -> Scheduling:
        """What the jobs tell the policy."""
        return Scheduling(priority=self.priority, weight=self.weight, job_class=self.job_class)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_CHECKS = {
    "name": (_is_text, "a name"),
    "priority": (_is_integer, "an integer"),
    "weight": (lambda v: isinstance(v, (int, float)) and not isinstance(v, bool), "a number"),
    "job_class": (_is_text, "a class of jobs"),
    "address": (_is_text, "a service's address"),
    "max_variants": (lambda v: _is_integer(v) and v >= 1, "an integer of at least 1"),
    "admission_timeout": (
        lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0,
        "a number of seconds",
    ),
    "strict": (lambda v: isinstance(v, bool), "True or False"),
}

_lock = threading.Lock()
_connected: dict[tuple[int, str | None], Service] = {}  # by process and address


def service_for(options: CompileOptions) -> Service:
    """The service of these options; a process connects once to each address. Raises
    ServiceUnavailable when an address was given and no service answers there."""
    named = options.address or os.environ.get("LANEWAY_ADDRESS") or None
    key = (os.getpid(), named)
    with _lock:
        service = _connected.get(key)
        if service is not None and not service.closed:
            return service
        try:
            service = connect(named)
        except ServiceUnavailable:
            if named is not None:
                raise
            return default_service()
        _connected[key] = service
        return service


def forget_service(service: Service) -> None:
    """Removes a service that has ended, so that the next call connects again."""
    with _lock:
        for key in [k for k, known in _connected.items() if known is service]:
            del _connected[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
