"""Scheduling: what a user tells the policy about a job, checked before anything is captured or
asked of a service. The service checks the same limits (base/limits.h)."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

from laneway.errors import InvalidInput

# laneway_class, by the names that users give.
CLASSES = {"training": 0, "inference": 1, "best_effort": 2}

MAX_PRIORITY = 1_000_000
MIN_WEIGHT, MAX_WEIGHT = 0.001, 1_000.0
MAX_TOTAL_ITERATIONS = 10**15
MAX_DEADLINE_S = 10.0 * 365 * 24 * 3600
MAX_ITERATION_S = 24.0 * 3600


@dataclasses.dataclass(frozen=True)
class Scheduling:
    """The options of train_step of the same names, whose docstring explains them. Raises
    InvalidInput, which names the option, its value and what it may be."""

    priority: int = 0
    weight: float = 1.0
    total_iterations: int | None = None
    deadline: float | None = None
    job_class: str | None = None  # None: what the job is
    iteration_s: float | None = None

    def __post_init__(self) -> None:
        for option, rule in _RULES.items():
            rule(option, getattr(self, option))

    def give(self, options: Any, job_class: str) -> None:
        """Sets the fields of laneway_job_options; `job_class` is what the job is."""
        options.job_class = CLASSES[self.job_class or job_class]
        options.priority = int(self.priority)
        options.weight = float(self.weight)
        options.total_iterations = int(self.total_iterations or 0)
        options.deadline_ns = _nanoseconds(self.deadline)
        options.iteration_ns = _nanoseconds(self.iteration_s)


def _nanoseconds(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, round(seconds * 1e9))


def _wrong(option: str, value: Any, remedy: str) -> InvalidInput:
    return InvalidInput(f"{option} = {value!r}: {remedy}")


def _whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _check_priority(option: str, value: Any) -> None:
    if not _whole(value) or abs(int(value)) > MAX_PRIORITY:
        raise _wrong(option, value, f"give a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}")


def _check_weight(option: str, value: Any) -> None:
    if not _real(value) or not MIN_WEIGHT <= float(value) <= MAX_WEIGHT:  # a NaN is in no range
        raise _wrong(option, value, f"give a number from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}")


def _check_total(option: str, value: Any) -> None:
    if value is not None and (not _whole(value) or not 1 <= int(value) <= MAX_TOTAL_ITERATIONS):
        raise _wrong(
            option,
            value,
            f"give a whole number from 1 to {MAX_TOTAL_ITERATIONS}, or None when it is not known",
        )


def _check_seconds(option: str, value: Any, what: str, most: float) -> None:
    if value is None:
        return
    if not _real(value) or not math.isfinite(value) or not 0 < float(value) <= most:
        raise _wrong(option, value, f"give {what}, above 0 and at most {most:.0f}, or None")


def _check_deadline(option: str, value: Any) -> None:
    _check_seconds(option, value, "seconds from the job's offer", MAX_DEADLINE_S)


def _check_iteration(option: str, value: Any) -> None:
    _check_seconds(option, value, "the seconds of one iteration", MAX_ITERATION_S)


def _check_class(option: str, value: Any) -> None:
    if value is not None and value not in CLASSES:
        raise _wrong(option, value, f"give one of {', '.join(map(repr, CLASSES))}")


_RULES = {
    "priority": _check_priority,
    "weight": _check_weight,
    "total_iterations": _check_total,
    "deadline": _check_deadline,
    "job_class": _check_class,
    "iteration_s": _check_iteration,
}

UNSAID = Scheduling()  # of a job of which nothing was said


def changed(known: Scheduling, changes: dict[str, Any]) -> Scheduling:
    """`known` with other values. Raises InvalidInput for a value that is none, an option that a job
    does not have, and no option at all."""
    keys = ", ".join(_RULES)
    if not changes:
        raise InvalidInput(f"nothing is set: give at least one of {keys}")
    for option in changes:
        if option not in _RULES:
            raise InvalidInput(f"{option} is no option of a job to set: give {keys}")
    if changes.get("job_class", "") is None:
        raise _wrong("job_class", None, f"give one of {', '.join(map(repr, CLASSES))}")
    return dataclasses.replace(known, **changes)


def settings_text(changes: dict[str, Any]) -> str:
    """The changes as laneway_job_set takes them. Raises what changed() does."""
    changed(UNSAID, changes)
    return " ".join(f"{option}={_text(value)}" for option, value in changes.items())


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """The changes that words of the form KEY=VALUE ask for. Raises InvalidInput, which names the
    word, or what changed() does."""
    changes: dict[str, Any] = {}
    for word in words:
        option, sign, text = word.partition("=")
        if not sign:
            raise InvalidInput(f"{word!r} sets nothing: give KEY=VALUE, for example weight=2")
        if option in changes:
            raise InvalidInput(f"{option} is given twice")
        changes[option] = _value(option, text)
    changed(UNSAID, changes)
    return changes


def _value(option: str, text: str) -> Any:
    if text == "none" and option in ("total_iterations", "deadline", "iteration_s"):
        return None
    if option in _RULES and option != "job_class":
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
    return text


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else repr(int(value) if _whole(value) else float(value))
