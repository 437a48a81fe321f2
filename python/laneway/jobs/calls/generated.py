"""A question of many parts as one function: what is asked before each call takes half of the time
that a loop takes, or lists and map()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TERMS = 40  # of one generated line, so that no expression nests too deeply


def all_of(terms: list[str], given: dict[str, Any]) -> Callable[[], bool]:
    """Whether all terms are true; they are of Python and use the names in `given`, which are cells
    of the function."""
    lines = [terms[at : at + _TERMS] for at in range(0, len(terms), _TERMS)]
    body = "".join(f"        if not ({' and '.join(line)}): return False\n" for line in lines)
    source = (
        f"def make({', '.join(given)}):\n    def hold():\n{body}        return True\n"
        "    return hold\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(source, "<laneway guards>", "exec"), scope)
    return scope["make"](**given)
