"""What a stream shows: its width, whether it takes colours, and text that no terminal obeys."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TextIO

from laneway import printable
from laneway.printable import columns_of

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "dim": 2}
_PLAIN = "\x1b[0m"


class Screen:
    """A stream. `width` and `height` are those of its terminal, None where it is none."""

    def __init__(self, stream: TextIO) -> None:
        self._encoding = getattr(stream, "encoding", None) or "ascii"
        self.width: int | None = None
        self.height: int | None = None
        self.is_terminal = stream.isatty()
        if self.is_terminal:
            self.width, self.height = _size_of(stream)
        term = os.environ.get("TERM", "")
        self._coloured = self.is_terminal and not os.environ.get("NO_COLOR") and term != "dumb"

    def text(self, text: str) -> str:
        """The text with an escape in place of each character that the stream cannot write or a
        terminal obeys: control characters, ends of lines, marks of direction."""
        plain = printable.escaped(text)
        return plain.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def name(self, name: str) -> str:
        """A name that a user gave, as text() has it, in printable.COLUMNS columns at most."""
        return self.text(printable.printable(name))

    def coloured(self, text: str, colour: str | None) -> str:
        """The text in the colour, where the stream takes colours."""
        if colour is None or not self._coloured:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}{_PLAIN}"

    def wrapped(self, lines: Sequence[str], indent: int) -> list[str]:
        """The lines, where a terminal is narrower with the rest of each below it, indented."""
        if self.width is None:
            return list(lines)
        return [part for line in lines for part in wrap(line, self.width, indent)]


def _size_of(stream: TextIO) -> tuple[int, int]:
    """COLUMNS and LINES go before what the terminal says, as in other programs."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    told = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    columns, lines = (
        int(text) if text.isascii() and text.isdigit() and int(text) else known
        for text, known in zip(told, (columns, lines))
    )
    return columns or 80, lines or 24


def wrap(line: str, width: int, indent: int) -> list[str]:
    """The line in lines of at most so many columns, all but the first indented. A word that is
    longer than a line is broken."""
    if columns_of(line) <= width:
        return [line]
    below, parts, begun = " " * min(indent, width // 2), [], ""
    for word in re.findall(r"\s*\S+", line):
        if columns_of(begun + word) > width:
            if begun.strip():
                parts.append(begun)
                begun, word = below, word.lstrip()
            while columns_of(begun + word) > width:
                fits = max(
                    n for n in range(len(word) + 1) if n < 2 or _fits(begun + word[:n], width)
                )
                parts.append(begun + word[:fits])
                begun, word = below, word[fits:]
        begun += word
    return [*parts, begun] if begun.strip() else parts


def _fits(text: str, width: int) -> bool:
    return columns_of(text) <= width
