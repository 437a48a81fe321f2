"""The jobs of a status as a table: which ones, in which order, and what of it fits a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from laneway.cli.screen import Screen, wrap
from laneway.cli.tables import duration, mebibytes
from laneway.printable import columns_of, cut, printable

Document = dict[str, Any]

# Of lanes::JobState; a test compares them.
STATES = (
    *("waiting", "staged", "resident", "running", "paused", "held", "evicting", "away"),
    *("restoring", "moving", "quarantined", "finished", "failed", "cancelled"),
)
_COLOURS = {"running": "green", "waiting": "yellow", "away": "yellow", "paused": "yellow"}
_COLOURS |= {"failed": "red", "quarantined": "red", "cancelled": "dim", "finished": "dim"}
_BETWEEN, _INDENT = 2, 4
_NAME_LEAST, _NAME_ENOUGH = 6, 24


class Column(NamedTuple):
    head: str
    text: Callable[[Document], str]
    is_number: bool = False


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def where(job: Document) -> str:
    """Where the job's image is; in a move, how much of it is there."""
    image = job["image"]
    places = [place for place in ("pool", "store", "spill") if image[f"{place}_bytes"]]
    text = "+".join(places) or "-"
    if image["moved_bytes"] is not None and job["persistent_bytes"]:
        text += f" {100 * image['moved_bytes'] // job['persistent_bytes']} %"
    return text + (" pinned" if image["pinned"] else "")


def reason(job: Document) -> str:
    """For a job with work that does not run: its position in the queue, the reason, since when, and
    the expected wait."""
    parts = []
    if job.get("position") is not None:
        parts.append(f"position {job['position']}")
    if job["reason"] is not None:
        parts.append(job["reason"]["text"])
    if job.get("deadline_missed_by_s"):
        parts.append(f"misses its deadline by {duration(job['deadline_missed_by_s'])}")
    if job.get("waiting_s") is not None:
        parts.append(f"since {duration(job['waiting_s'])}")
    if job.get("wait_estimate_s") is not None:
        parts.append(f"room likely in {duration(job['wait_estimate_s'])}")
    return "; ".join(parts) or "-"


COLUMNS = (
    Column("ID", lambda job: str(job["id"]), True),
    Column("NAME", lambda job: printable(job["name"])),
    Column("USER", lambda job: _text(job["user"])),
    Column("CLASS", lambda job: job["class"]),
    Column("STATE", lambda job: job["state"]),
    Column("IMAGE", where),
    Column("LANE", lambda job: _text(job["lane"]), True),
    Column("PRIO", lambda job: str(job["priority"]), True),
    Column("P-MiB", lambda job: mebibytes(job["persistent_bytes"]), True),
    Column("E-MiB", lambda job: mebibytes(job["ephemeral_bytes"]), True),
    Column("ITERATIONS", lambda job: f"{job['iterations']:,}", True),
    Column("DEVICE-TIME", lambda job: duration(job["device_time_s"]), True),
    Column("REASON", reason),
)
# What a narrow terminal does without, in this order. ID, NAME and STATE stay.
_LEAVE = ("DEVICE-TIME", "E-MiB", "PRIO", "LANE", "CLASS", "P-MiB", "USER", "IMAGE", "ITERATIONS")

# By key of --sort: what is compared, and whether the largest comes first. What is null comes last.
_ORDERS: dict[str, tuple[Callable[[Document], Any], bool]] = {
    "id": (lambda job: job["id"], False),
    "name": (lambda job: job["name"], False),
    "user": (lambda job: job["user"], False),
    "class": (lambda job: job["class"], False),
    "state": (lambda job: STATES.index(job["state"]) if job["state"] in STATES else None, False),
    "priority": (lambda job: job["priority"], True),
    "memory": (lambda job: job["persistent_bytes"], True),
    "iterations": (lambda job: job["iterations"], True),
    "device_time": (lambda job: job["device_time_s"], True),
    "waiting": (lambda job: job["waiting_s"], True),
}
SORT_KEYS = tuple(_ORDERS)


def chosen(
    jobs: Iterable[Document], user: str | None, states: Sequence[str], key: str | None
) -> list[Document]:
    """The jobs of the user, in one of the states, in the order of the key; None or none: all of
    them, in the order of the service."""
    found = [
        job
        for job in jobs
        if (user is None or job["user"] == user) and (not states or job["state"] in states)
    ]
    if key is None:
        return found
    value, largest_first = _ORDERS[key]
    known = [job for job in found if value(job) is not None]
    rest = [job for job in found if value(job) is None]
    return sorted(known, key=value, reverse=largest_first) + rest


def job_lines(jobs: Sequence[Document], screen: Screen, wide: bool = False) -> list[str]:
    """One line for each job. On a terminal, and not `wide`: as many columns as fit, and a reason
    that does not is below its job; the last line names the columns that are left out."""
    if not jobs:
        return ["no jobs"]
    rows = {c.head: [screen.text(c.text(job)) for job in jobs] for c in COLUMNS}
    left_out: list[str] = []
    below: list[str] | None = None
    if screen.width is not None and not wide:
        if _width(rows) > screen.width:
            below = rows.pop("REASON")
        left_out = _fit(rows, screen.width)
    lines = _lines(rows, [_COLOURS.get(job["state"]) for job in jobs], screen)
    if below is None:
        return lines
    assert screen.width is not None
    whole = lines[:1]
    for line, text in zip(lines[1:], below):
        whole.append(line)
        if text != "-":
            indent = min(_INDENT, screen.width // 2)
            whole += wrap(" " * indent + text, screen.width, indent)
    if left_out:
        whole += wrap(f"--wide also shows {', '.join(left_out)}", screen.width, 0)
    return whole


def _widths(rows: dict[str, list[str]]) -> dict[str, int]:
    return {head: max(map(columns_of, [head, *cells])) for head, cells in rows.items()}


def _width(rows: dict[str, list[str]]) -> int:
    return sum(_widths(rows).values()) + _BETWEEN * (len(rows) - 1)


def _fit(rows: dict[str, list[str]], width: int) -> list[str]:
    """Makes the rows as narrow: long names are cut, columns are left out, then names are cut
    further. Returns the heads of what was left out. A state is never cut."""

    def narrow_names(least: int) -> None:
        too_wide = _width(rows) - width
        if too_wide > 0:
            room = max(_widths(rows)["NAME"] - too_wide, least)
            rows["NAME"] = [cut(name, room) for name in rows["NAME"]]

    narrow_names(_NAME_ENOUGH)
    left_out = []
    for head in _LEAVE:
        if _width(rows) <= width:
            break
        del rows[head]
        left_out.append(head)
    narrow_names(_NAME_LEAST)
    return [column.head for column in COLUMNS if column.head in left_out]


def _lines(rows: dict[str, list[str]], colours: Sequence[str | None], screen: Screen) -> list[str]:
    widths = _widths(rows)
    numbers = {column.head for column in COLUMNS if column.is_number}

    def line(cells: dict[str, str], colour: str | None) -> str:
        parts = []
        for head, cell in cells.items():
            blanks = " " * (widths[head] - columns_of(cell))
            shown = screen.coloured(cell, colour) if head == "STATE" else cell
            parts.append(blanks + shown if head in numbers else shown + blanks)
        return (" " * _BETWEEN).join(parts).rstrip()

    heads = line({head: head for head in rows}, None)
    bodies = zip(*rows.values())
    return [heads, *(line(dict(zip(rows, body)), c) for body, c in zip(bodies, colours))]
