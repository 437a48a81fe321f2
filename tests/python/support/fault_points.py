"""The fault points of the service's programs, as their sources have them: a new point is tried by
the tests without anybody adding it to a list."""

from __future__ import annotations

import re
from pathlib import Path

_SERVICE = Path(__file__).resolve().parents[3] / "service"


def fault_points(program: str) -> list[str]:
    """ "PROGRAM.POINT" for every point in the program's folder, in alphabetical order."""
    found = set()
    for path in (_SERVICE / program).glob("*.cc"):
        found |= set(re.findall(rf'fault_point\("({program}\.\w+)"\)', path.read_text()))
    return sorted(found)
