"""The commands `lanewayd`, `laneway-trace` and `laneway-simulate` of an installed package: each
becomes the program of its name in laneway/bin; lanewayd needs the libraries of the torch that is
installed beside it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def lanewayd() -> None:
    """Becomes lanewayd. Exits with 1, and a message, when there is no torch that fits."""
    problem = torch_problem()
    if problem is not None:
        sys.exit(f"lanewayd: {problem}")
    _become("lanewayd", os.environ | library_path())


def laneway_trace() -> None:
    """Becomes laneway-trace, which needs no torch."""
    _become("laneway-trace", dict(os.environ))


def laneway_simulate() -> None:
    """Becomes laneway-simulate, which needs no torch."""
    _become("laneway-simulate", dict(os.environ))


def torch_problem() -> str | None:
    """Why the service's workers could not load torch; None when they can. Does not import torch."""
    wanted = required_torch()
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return (
            f"its workers need torch {wanted}, and {sys.prefix} has none: "
            f"pip install torch=={wanted}"
        )
    if wanted and found.partition("+")[0] != wanted:
        return (
            f"its workers were built for torch {wanted}, and {sys.prefix} has {found}: "
            f"pip install torch=={wanted}, or build Laneway's wheel again for {found}"
        )
    return None


def required_torch() -> str:
    """The version that this package requires, as its metadata tells; "" when they do not."""
    for line in importlib.metadata.requires("laneway") or ():
        match = re.fullmatch(r"torch\s*\(?==\s*([0-9.]+)\)?", line.strip())
        if match:
            return match.group(1)
    return ""


def library_path() -> dict[str, str]:
    """The change of the environment that a worker needs when torch is not installed beside this
    package: LD_LIBRARY_PATH with torch's libraries in front. Empty when torch is beside it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent
    if folder.parent == PACKAGE.parent:
        return {}
    before = os.environ.get("LD_LIBRARY_PATH")
    return {
        "LD_LIBRARY_PATH": os.pathsep.join([str(folder / "lib"), *([before] if before else [])])
    }


def _become(name: str, environment: dict[str, str]) -> None:
    program = PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: {program} is missing: install the package laneway again")
    os.execve(program, [name, *sys.argv[1:]], environment)
