"""The commands `lanewayd`, `laneway-trace` and `laneway-simulate` of an installed package: each
becomes the program of its name in laneway/bin; lanewayd needs the libraries of the torch that is
installed beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from laneway.errors import ServiceUnavailable
from laneway.native.torch_versions import Torch, usable_torch

PACKAGE = Path(__file__).resolve().parents[1]


def lanewayd() -> None:
    """Becomes lanewayd. Exits with 1, and a message, when there is no torch that its workers can
    load."""
    try:
        torch = usable_torch()
    except ServiceUnavailable as error:
        sys.exit(f"lanewayd: {error}")
    _become("lanewayd", os.environ | library_path(torch))


def laneway_trace() -> None:
    """Becomes laneway-trace, which needs no torch."""
    _become("laneway-trace", dict(os.environ))


def laneway_simulate() -> None:
    """Becomes laneway-simulate, which needs no torch."""
    _become("laneway-simulate", dict(os.environ))


def library_path(torch: Torch) -> dict[str, str]:
    """The change of the environment that a worker needs when torch is not installed beside this
    package: LD_LIBRARY_PATH with torch's libraries in front. Empty when torch is beside it."""
    if torch.folder.parent == PACKAGE.parent:
        return {}
    before = os.environ.get("LD_LIBRARY_PATH")
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(
            [str(torch.folder / "lib"), *([before] if before else [])]
        )
    }


def _become(name: str, environment: dict[str, str]) -> None:
    program = PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: {program} is missing: install the package laneway again")
    os.execve(program, [name, *sys.argv[1:]], environment)
