"""What the processes that a bench starts to probe something have in common: they print what they
found as JSON, or say in one line why not and exit with 1."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch


def run_probe(probe: Callable[[], dict[str, Any]]) -> int:
    """Runs `probe` with the threads of OMP_NUM_THREADS, else one. Returns the exit code."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    try:
        found = probe()
    except Exception as error:  # whatever it is, the bench reports its last line as the reason
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0
