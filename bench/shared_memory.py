"""Memory of a group of processes, each shared page counted once in parts (PSS, as Linux has it)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .daemon import children_of


def pss_bytes(pid: int) -> int:
    """A page that n processes share counts with an n-th in each."""
    return parse_pss(Path(f"/proc/{pid}/smaps_rollup").read_text())


def parse_pss(rollup: str) -> int:
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    if found is None:
        raise ValueError("no line Pss in a smaps_rollup")
    return int(found[1]) * 1024


def family(pid: int) -> list[int]:
    """The process and all that it started, directly or not."""
    found = [pid]
    for child in children_of(pid):
        found += family(child)
    return found


def pss_of(pids: Iterable[int]) -> int:
    return sum(pss_bytes(pid) for pid in pids)
