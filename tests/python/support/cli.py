"""The command line `laneway`, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_TIMEOUT_S = 120


def run(
    *words: str, address: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A finished `laneway WORDS`, started in that folder."""
    paths = os.pathsep.join([str(_ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    at = ["--address", address] if address else []
    return subprocess.run(
        [sys.executable, "-m", "laneway.cli", *words, *at],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
