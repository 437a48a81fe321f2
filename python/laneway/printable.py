"""Printable: the one rule for text that users gave and people read, as base/printable has it for
log lines and traces. No terminal obeys what comes out, and a name takes few columns."""

from __future__ import annotations

import unicodedata

COLUMNS = 64  # of a name in a line, at most
_CUT = ".."  # stands for what is left out of a text


def escaped(text: str) -> str:
    """The text with Python's escape in place of each character that is not printable: control
    characters, ends of lines, marks of direction."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """The beginning of the escaped text, as far as it fits into COLUMNS columns."""
    return cut(escaped(text), COLUMNS)


def columns_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(unicodedata.combining(c)) for c in text)


def cut(text: str, width: int) -> str:
    """The beginning of the text, as far as it fits into so many columns; ".." stands for the
    rest."""
    if columns_of(text) <= width:
        return text
    kept = text
    while kept and columns_of(kept) > width - len(_CUT):
        kept = kept[:-1]
    return (kept + _CUT)[:width] if width >= len(_CUT) else kept
