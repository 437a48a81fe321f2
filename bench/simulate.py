"""Starts laneway-simulate, the core in virtual time, and reads what it found."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .harness import find_program

TRACES = Path(__file__).resolve().parent / "traces"


@dataclass(frozen=True)
class Simulated:
    """`summary` is the policy's object of `--json`; `jobs` the lines of `--csv` as text."""

    summary: dict[str, Any]
    jobs: list[dict[str, str]]

    def ends_s(self) -> list[float]:
        return [float(job["ended_s"]) for job in self.jobs]


def _environment() -> dict[str, str]:
    """In which the python3 of a policy's file is this one, and has this checkout's laneway."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(TRACES.parents[1] / "python")}


def generate(jobs: int, seed: int, trace: Path) -> None:
    """Writes so many jobs, drawn from the seed, as a trace. RuntimeError as simulate()."""
    _run("--generate", str(jobs), "--seed", str(seed), "--save-trace", str(trace))


def simulate(trace: Path, policy: str, *flags: str) -> Simulated:
    """One policy over the trace. RuntimeError with the program's reason when it fails."""
    with tempfile.TemporaryDirectory(prefix="laneway-simulate-") as folder:
        results, lines = Path(folder) / "results.json", Path(folder) / "jobs.csv"
        arguments = ["--trace", str(trace), "--policy", policy, *flags]
        _run(*arguments, "--json", str(results), "--csv", str(lines))
        with lines.open(newline="") as file:
            jobs = list(csv.DictReader(file))
        return Simulated(json.loads(results.read_text())["policies"][policy], jobs)


def _run(*arguments: str) -> None:
    command = [str(find_program("laneway-simulate", "bin")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(said[-1])
