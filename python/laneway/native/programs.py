"""Finds the programs of the service."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program(name: str) -> Path | None:
    """The path of the program: in $LANEWAY_BUILD/bin, else in the installed package, beside this
    Python, or on the PATH; None when it is in none of them."""
    build = os.environ.get("LANEWAY_BUILD")
    installed = Path(__file__).resolve().parents[1] / "bin"
    folders = [Path(build) / "bin"] if build else [installed, Path(sys.executable).parent]
    for folder in folders:
        if (folder / name).exists():
            return (folder / name).resolve()
    found = shutil.which(name)
    return Path(found).resolve() if found else None
