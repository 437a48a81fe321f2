"""What can come of a case of the corpus."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import laneway
from laneway.errors import CaptureError, GraphError, InvalidInput, OutOfMemory, Refused

EQUAL = "bit-equal as a job"
EAGER_WARNED = "eager with a warning"
EAGER_SILENT = "eager without a warning"
REFUSED = "refused"
UNCLEAR = "unclear error"
RAISED = "raised to the user"
DIFFERENT = "silently different"
CRASH = "crash"
HANG = "hang"
NOT_APPLICABLE = "n/a"

CLASSES = (
    EQUAL,
    EAGER_WARNED,
    REFUSED,
    EAGER_SILENT,
    UNCLEAR,
    RAISED,
    DIFFERENT,
    CRASH,
    HANG,
    NOT_APPLICABLE,
)
# What must never come of a case.
WRONG = frozenset({EAGER_SILENT, UNCLEAR, RAISED, DIFFERENT, CRASH, HANG})

_CLEAR = (CaptureError, GraphError, InvalidInput, OutOfMemory, Refused)
_LINE = re.compile(r"[\w.<>@/-]+\.py:\d+(?: in [\w<>]+)?")
_NODE = re.compile(r"\bnode \d+")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class NotApplicable(Exception):
    """Eager refuses the case, or is not the same twice: there is nothing to be equal to."""


@dataclasses.dataclass
class Outcome:
    """`notes` are differences that count for nothing: strides of results that are not eager's
    where an interface does not promise them, and the like. `dynamic`: eager called an operator
    that torch tags dynamic_output_shape or data_dependent_output; `draws`: one that it tags
    nondeterministic_seeded, with a seed of the case's own."""

    kind: str
    message: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)
    dynamic: bool = False
    draws: bool = False


def not_applicable(reason: str) -> Outcome:
    return Outcome(NOT_APPLICABLE, words_of(reason)[:200])


def of_error(error: BaseException) -> Outcome:
    """What an error of ours, where eager raises none, is: refused in words, or unclear."""
    kind = REFUSED if isinstance(error, _CLEAR) else UNCLEAR
    words = words_of(str(error))
    if kind is UNCLEAR:
        words = f"{type(error).__module__}.{type(error).__name__}: {words}"
    if kind is UNCLEAR and isinstance(error, laneway.Error):
        words += " (an internal error)"
    return Outcome(kind, words)


def words_of(text: str) -> str:
    """A message on one line, without what changes from run to run or with unrelated edits."""
    text = " ".join(text.split())
    return _ADDRESS.sub("0x…", _NODE.sub("node N", _LINE.sub("FILE:LINE", text)))


@dataclasses.dataclass(frozen=True)
class Case:
    """`form` is the layout of an operator's inputs, or how a module or an optimizer is run."""

    part: str
    name: str
    dtype: str
    sample: int
    form: str

    def __str__(self) -> str:
        return f"{self.name} #{self.sample} {self.form} {self.dtype}"


@dataclasses.dataclass
class Row:
    """A case and its outcome, as they go to a file."""

    case: Case
    outcome: Outcome

    def line(self) -> str:
        notes = f" [{'; '.join(self.outcome.notes)}]" if self.outcome.notes else ""
        return f"{self.outcome.kind}: {self.case}: {self.outcome.message}{notes}"

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self.case) | {
            "class": self.outcome.kind,
            "message": self.outcome.message,
            "notes": self.outcome.notes,
            "dynamic": self.outcome.dynamic,
            "draws": self.outcome.draws,
        }

    @staticmethod
    def of_json(found: dict[str, Any]) -> Row:
        case = Case(*(found[name] for name in ("part", "name", "dtype", "sample", "form")))
        outcome = Outcome(found["class"], found["message"], found["notes"], found["dynamic"])
        outcome.draws = found.get("draws", False)
        return Row(case, outcome)


def listed(rows: list[Row], kind: str) -> list[str]:
    """The cases of a class, those of one name and message in one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        case, outcome = row.case, row.outcome
        if outcome.kind == kind:
            key = (f"{case.name} {case.dtype}", outcome.message)
            found.setdefault(key, []).append(f"#{case.sample} {case.form}")
    return [f"{name}: {', '.join(where)}: {text}" for (name, text), where in found.items()]
