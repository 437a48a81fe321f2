"""Reads a note from a shared object without loading it, and sees whether the file is whole: the
loader maps a file that was cut, and the process then dies at the first page that is missing."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

_FILE = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
_NOTE = struct.Struct("<III")
_LITTLE_64 = b"\x7fELF\x02\x01"
_PT_NOTE = 4
_MOST_NOTE_BYTES = 1 << 16


class Damaged(Exception):
    """The file is no whole shared object; the message goes on from "the file …"."""


def note_of(path: Path, name: bytes) -> str | None:
    """The text of the first note of this name; None when the file has none. Raises Damaged, and
    OSError when the file cannot be read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for start, count in _note_segments(file, size):
            file.seek(start)
            text = _find(file.read(min(count, _MOST_NOTE_BYTES)), name)
            if text is not None:
                return text
    return None


def _note_segments(file: BinaryIO, size: int) -> list[tuple[int, int]]:
    head = file.read(_FILE.size)
    if len(head) < _FILE.size or not head.startswith(_LITTLE_64):
        raise Damaged(f"has {size} bytes and does not begin as a shared object")
    _, _, _, _, _, segments, sections, *_, count, section_size, section_count, _ = _FILE.unpack(
        head
    )
    ends = [sections + section_size * section_count]
    found = []
    if segments + count * _SEGMENT.size > size:
        raise Damaged(f"ends after {size} bytes, in its table of segments")
    for number in range(count):
        file.seek(segments + number * _SEGMENT.size)
        kind, _, start, _, _, bytes_there, *_ = _SEGMENT.unpack(file.read(_SEGMENT.size))
        ends.append(start + bytes_there)
        if kind == _PT_NOTE:
            found.append((start, bytes_there))
    if max(ends) > size:
        raise Damaged(f"has {size} bytes of {max(ends)}")
    return found


def _find(notes: bytes, name: bytes) -> str | None:
    at = 0
    while at + _NOTE.size <= len(notes):
        name_bytes, text_bytes, _ = _NOTE.unpack_from(notes, at)
        text_at = at + _NOTE.size + _aligned(name_bytes)
        if notes[at + _NOTE.size :][:name_bytes].rstrip(b"\0") == name:
            return notes[text_at:][:text_bytes].rstrip(b"\0").decode(errors="replace")
        at = text_at + _aligned(text_bytes)
    return None


def _aligned(count: int) -> int:
    return (count + 3) // 4 * 4
