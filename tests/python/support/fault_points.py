"""The fault points of the service's programs, read from their sources: the tests try a new point
without a list of their own."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_FOLDERS = [_ROOT / "service", _ROOT / "pipeline"]


def fault_points(program: str) -> list[str]:
    """ "PROGRAM.POINT" for every point that the program may pass, in alphabetical order. Raises
    ValueError when there is none, because then the tests would try nothing."""
    found = set()
    for folder in _FOLDERS:
        for path in folder.rglob("*.cc"):
            found |= set(re.findall(rf'fault_point\("({program}\.\w+)"\)', path.read_text()))
    if not found:
        raise ValueError(f"{_FOLDERS} have no fault point {program}.NAME")
    return sorted(found)
