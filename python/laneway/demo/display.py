"""The progress output of the demo: lines that change in place on a terminal, single lines from time
to time otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

EVERY_S = 0.1
EVERY_S_WITHOUT_TERMINAL = 2.0


def size(count: int | None) -> str:
    """1536 -> "1.5 KiB"."""
    if count is None:
        return "?"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as lines, columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


class Display:
    """Writes to `out`. `live` lines replace the ones before them on a terminal; without a terminal
    a line is printed every two seconds if it has changed. Quiet: only `result` prints. One thread
    must use it."""

    def __init__(self, quiet: bool, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._quiet = quiet
        self._terminal = self._out.isatty()
        self._lines_up = 0
        self._last = 0.0
        self._brief = ""

    def say(self, text: str = "") -> None:
        """A line that stays, unless quiet."""
        if not self._quiet:
            self.result(text)

    def result(self, text: str = "") -> None:
        """A line that stays, always."""
        self._lines_up = 0
        print(text, file=self._out, flush=True)

    def due(self, now: float | None = None) -> bool:
        """Whether it is time for new live lines."""
        every = EVERY_S if self._terminal else EVERY_S_WITHOUT_TERMINAL
        now = time.monotonic() if now is None else now
        if self._quiet or now - self._last < every:
            return False
        self._last = now
        return True

    def live(self, lines: Sequence[str], brief: str) -> None:
        """Shows the lines in place of the last live ones; without a terminal, `brief`."""
        if self._quiet:
            return
        if self._terminal:
            up = f"\x1b[{self._lines_up}A" if self._lines_up else ""
            print(up + "".join(f"\r\x1b[2K{line}\n" for line in lines), end="", file=self._out)
            self._lines_up = len(lines)
        elif brief != self._brief:
            self._brief = brief
            print(brief, file=self._out)
        self._out.flush()
