"""Text for people: amounts of memory, durations, and tables with aligned columns."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.printable import columns_of

_MIB = 1 << 20


def mebibytes(count: int | None) -> str:
    """An amount of memory in MiB; "-" when `count` is None. Amounts below 10 have two decimals."""
    if count is None:
        return "-"
    amount = count / _MIB
    if count and amount < 0.01:
        return "<0.01"
    return f"{amount:.2f}" if amount < 10 else f"{amount:,.0f}"


def duration(seconds: float | None) -> str:
    """A text such as 12.3 s, 4 min 5 s or 3 h 7 min; "-" when `seconds` is None."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """The lines of a table, with two blanks between columns. Columns whose heads are words of
    `right` are aligned to the right."""
    widths = [max(columns_of(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    numbers = set(right.split())

    def line(cells: Sequence[str]) -> str:
        padded = []
        for head, cell, width in zip(heads, cells, widths, strict=True):
            blanks = " " * (width - columns_of(cell))
            padded.append(blanks + cell if head in numbers else cell + blanks)
        return "  ".join(padded).rstrip()

    return [line(row) for row in [heads, *rows]]
