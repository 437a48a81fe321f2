"""The rows of the table of what is supported, and the page that is made from their outcomes."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.trial import CLOSE, NOT_TORCH, REFUSED, SAME, Outcome, Trial

Run = Callable[[Trial], None]
PAGE = Path(__file__).resolve().parents[3] / "python" / "SUPPORT.md"

# The modules of support_rows in the order of the page.
TOPICS = (
    "networks",
    "layers",
    "sequences",
    "functions",
    "randomness",
    "optimizers",
    "steps",
    "python_reads",
    "python_changes",
    "between",
    "modules",
    "inferences",
    "inputs",
    "refusals",
)

_INTRODUCTION = """# What the engine supports

Everything named here was tried: a small model is trained for a few steps (or run forward) by plain
PyTorch and through an embedded service, on the CPU with one thread; all that is left is compared:
results, parameters, buffers, optimizer state. `tests/python/support_rows/` has the code, and
`.venv/bin/python tests/python/write_support.py --write` makes this page from the outcomes; a test
fails when it says anything else. PyTorch's own databases of operators, modules and optimizers were
tried as well: see [OPERATORS.md](OPERATORS.md).

| it says | meaning |
| --- | --- |
| bit-equal | every byte is that of eager PyTorch |
| equal within rounding | not the same bytes, nor more than rounding apart; the table says why |
| refused | `laneway.Error` is raised, with these words, before anything is changed |
| eager PyTorch refuses it too | there is nothing to be equal to: what torch says |

In messages, FILE:LINE stands for the line of the user's at fault and its function.
"""

_WHOLE_WORDS = {"break_long_words": False, "break_on_hyphens": False}
_UNKNOWN = "got an unexpected keyword argument"  # torch's words


@dataclasses.dataclass(frozen=True)
class Row:
    group: str
    name: str
    run: Run

    @property
    def title(self) -> str:
        """The row's name among the rows of all tables."""
        return f"{self.group} - {self.name}"


class Group:
    """A table of the page. As a decorator, `group(name)` adds a row. A `matrix` has rows named
    "line / column"."""

    def __init__(self, title: str, note: str = "", matrix: bool = False) -> None:
        self.title, self.note, self.matrix = title, note, matrix
        self.rows: list[Row] = []

    def __call__(self, name: str) -> Callable[[Run], Run]:
        def add(run: Run) -> Run:
            self.add(name, run)
            return run

        return add

    def add(self, name: str, run: Run) -> None:
        if any(row.name == name for row in self.rows):
            raise ValueError(f"{self.title} has two rows {name!r}")
        self.rows.append(Row(self.title, name, run))

    def each(self, cases: dict[str, Any], run: Callable[[Trial, Any], None]) -> None:
        """A row for every case: run(trial, case)."""
        for name, case in cases.items():
            self.add(name, lambda trial, case=case: run(trial, case))


def groups() -> list[Group]:
    """All tables, in the order of the page."""
    import support_rows

    found = {module.name for module in pkgutil.iter_modules(support_rows.__path__)}
    if found != set(TOPICS):
        raise ValueError(f"support_rows has {sorted(found)}, TOPICS {sorted(TOPICS)}")
    modules = [importlib.import_module(f"support_rows.{topic}") for topic in TOPICS]
    return [group for module in modules for group in module.GROUPS]


def page(tables: list[Group], outcomes: dict[tuple[str, str], Outcome]) -> str:
    """The page's text."""
    kinds = [outcomes[row.group, row.name].kind for table in tables for row in table.rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in (SAME, CLOSE, REFUSED, NOT_TORCH))
    parts = [_INTRODUCTION, f"{len(kinds)} cases: {counts}.\n"]
    for table in tables:
        parts.append(f"\n## {table.title}\n")
        if table.note:
            parts.append(f"\n{table.note}\n")
        parts.append("\n" + (_matrix if table.matrix else _lines)(table, outcomes))
    return "".join(parts)


def cell(outcome: Outcome) -> str:
    """An outcome as it stands in a table."""
    return str(outcome).replace("|", "\\|").replace("<", "&lt;")


def _lines(table: Group, outcomes: dict[tuple[str, str], Outcome]) -> str:
    """First the names of all rows that are bit-equal, then a table of the others by outcome."""
    names: dict[str, list[str]] = {}
    for row in table.rows:
        names.setdefault(cell(outcomes[row.group, row.name]), []).append(row.name)
    same = names.pop(SAME, [])
    rows = [f"| {'; '.join(those)} | {outcome} |\n" for outcome, those in names.items()]
    parts = []
    if same:
        parts.append(textwrap.fill(f"Bit-equal: {'; '.join(same)}.", 120, **_WHOLE_WORDS) + "\n")
    if rows:
        parts.append("| what | outcome |\n| --- | --- |\n" + "".join(rows))
    return "\n".join(parts)


def _matrix(table: Group, outcomes: dict[tuple[str, str], Outcome]) -> str:
    columns = list(dict.fromkeys(row.name.split(" / ")[1] for row in table.rows))
    lines: dict[str, dict[str, str]] = {}
    notes: dict[str, int] = {}
    for row in table.rows:
        name, column = row.name.split(" / ")
        outcome = outcomes[row.group, row.name]
        argument = column.replace(" ", "_")
        if outcome.message == f"TypeError: {name}.__init__() {_UNKNOWN} '{argument}'":
            text = "–"
        elif outcome.message:
            number = notes.setdefault(cell(outcome), len(notes) + 1)
            short = "–" if outcome.kind == NOT_TORCH else outcome.kind
            text = f"{short} ({number})"
        else:
            text = outcome.kind
        lines.setdefault(name, {})[column] = text
    head = "| |" + "".join(f" {column} |" for column in columns) + "\n"
    rule = "| --- |" + " --- |" * len(columns) + "\n"
    body = "".join(
        f"| {name} |" + "".join(f" {cells.get(column, '')} |" for column in columns) + "\n"
        for name, cells in lines.items()
    )
    listed = "".join(f"{number}. {text}\n" for text, number in notes.items())
    legend = "\n–: torch's has no such argument.\n\n"
    return head + rule + body + legend + listed
