"""Finds the programs of the service."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from laneway.native.torch_versions import library_folder

PACKAGE = Path(__file__).resolve().parents[1]


def program(name: str) -> Path | None:
    """The path of the program: in $LANEWAY_BUILD/bin, else in the installed package, beside this
    Python, or on the PATH; None when it is in none of them."""
    build = os.environ.get("LANEWAY_BUILD")
    folders = [Path(build) / "bin"] if build else [PACKAGE / "bin", Path(sys.executable).parent]
    for folder in folders:
        if (folder / name).exists():
            return (folder / name).resolve()
    found = shutil.which(name)
    return Path(found).resolve() if found else None


def worker(minor: str) -> Path | None:
    """The laneway-worker for this minor version of torch: the one that LANEWAY_WORKER names, or in
    the installed package beside the embedded library; in a checkout a program as any other. Raises
    ServiceUnavailable when the package has workers for other versions only."""
    named = os.environ.get("LANEWAY_WORKER")
    if named:
        return Path(named)
    lib = PACKAGE / "lib"
    if (
        not minor
        or os.environ.get("LANEWAY_BUILD")
        or (folder := library_folder(lib, minor)) == lib
    ):
        return program("laneway-worker")
    return folder / "laneway-worker"
