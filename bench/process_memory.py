"""What of this process's memory is where, as the kernel counts it (/proc/self)."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = 1 << 63  # of a /proc/self/pagemap entry: the page is mapped into this process


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int  # of its first byte in the file that is mapped
    name: str


def mappings(name: str) -> list[Mapping]:
    """Mappings whose file name contains `name` (a memfd's name counts), by address."""
    found = []
    with open("/proc/self/maps") as lines:
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and name in fields[5]:
                start, end = (int(part, 16) for part in fields[0].split("-"))
                found.append(Mapping(start, end, int(fields[2], 16), fields[5].strip()))
    return found


def resident_bytes(start: int, length: int) -> int:
    """Bytes of [start, start + length) on pages that are mapped into this process right now; a page
    that lies in the range only partly counts with that part."""
    if length <= 0:
        return 0
    first, last = start // PAGE, (start + length - 1) // PAGE
    with open("/proc/self/pagemap", "rb") as pagemap:
        pagemap.seek(first * 8)
        data = pagemap.read((last - first + 1) * 8)
    total = 0
    for index, (entry,) in enumerate(struct.iter_unpack("<Q", data)):
        if entry & _PRESENT:
            page = (first + index) * PAGE
            total += min(page + PAGE, start + length) - max(page, start)
    return total


def resident_in_file(name: str, offset: int, length: int) -> int:
    """Bytes of the file called `name` in [offset, offset + length) that are mapped into this
    process and resident; through whichever of its mappings has more of them."""
    best = 0
    for mapping in mappings(name):
        first = max(offset, mapping.offset)
        last = min(offset + length, mapping.offset + mapping.end - mapping.start)
        best = max(best, resident_bytes(mapping.start + first - mapping.offset, last - first))
    return best


def anonymous_bytes() -> int:
    """Anonymous memory of this process: heaps, stacks, private mappings; not the pool's memfd."""
    with open("/proc/self/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/smaps_rollup has no line Anonymous")
