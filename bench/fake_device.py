"""Probes of benches that run on the fake device (tests/fake_cuda), each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .harness import SANITIZED, single_thread_environment
from .report import ROOT

DEVICE = "cuda:0"
FAKE = "tests/fake_cuda/libcuda.so.1"


def probe_on_fake(module: str, *words: str, environment: dict[str, str] | None = None) -> Any:
    """What the probe found, or {"error": why not}."""
    library = _library()
    if library is None:
        return {"error": f"{FAKE} is in no build: ninja -C build/dev fake_cuda"}
    return probe(module, *words, environment={"LD_PRELOAD": str(library)} | (environment or {}))


def probe(module: str, *words: str, environment: dict[str, str]) -> Any:
    """The JSON that `python -m module WORDS` printed last, or {"error": why not}."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path} | single_thread_environment(1) | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return {"error": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def _library() -> Path | None:
    from laneway.native import bindings

    builds = [bindings.library_path().resolve().parents[1], *sorted((ROOT / "build").glob("*"))]
    libraries = [build / FAKE for build in builds if build.name not in SANITIZED]
    return next((library for library in libraries if library.exists()), None)
