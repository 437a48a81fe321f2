"""The fault points of the service's programs, read from their sources: the tests try a new point
without a list of their own."""

from __future__ import annotations

import re
from pathlib import Path

_SERVICE = Path(__file__).resolve().parents[3] / "service"


def fault_points(program: str) -> list[str]:
    """ "PROGRAM.POINT" for every point in the program's folder, in alphabetical order. Raises
    ValueError when the folder has none, because then the tests would try nothing."""
    found = set()
    for path in (_SERVICE / program).rglob("*.cc"):
        found |= set(re.findall(rf'fault_point\("({program}\.\w+)"\)', path.read_text()))
    if not found:
        raise ValueError(f"{_SERVICE / program} has no fault point {program}.NAME")
    return sorted(found)
