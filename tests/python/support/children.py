"""Runs a script in a Python process of its own, for tests of fork, exit and signals. The script
sees the package, the benches and the tests' support; the time limit guards against hanging and
decides nothing else."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GUARD_S = 120

# What every script begins with: the tiny job that most of them train.
PRELUDE = """
import os, signal, sys, threading
import torch
from torch import nn
import laneway
from support.eager import assert_same, eager_step
torch.set_num_threads(1)

def make(seed=0, width=16):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 3))
    return model, nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters())

def batch(number=0, rows=4):
    generator = torch.Generator().manual_seed(number)
    return (torch.randn(rows, 8, generator=generator),
            torch.randint(0, 3, (rows,), generator=generator))

def eager(count, seed=0, width=16, rows=4):
    model, loss_fn, optimizer = make(seed, width)
    torch.manual_seed(seed + 1)
    for number in range(count):
        eager_step(model, loss_fn, optimizer, batch(number, rows))
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state()}

def step_of(service, seed=0, width=16, **options):
    model, loss_fn, optimizer = make(seed, width)
    torch.manual_seed(seed + 1)
    options = {"random": "own"} | options  # beside eager and other steps
    return laneway.train_step(model, loss_fn, optimizer, service, **options)
"""


class Child:
    """A finished script: exit code (negative: the signal's number) and what it wrote."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def script_of(*parts: str) -> str:
    """Prelude and parts, each of which may be indented as a whole."""
    script = "".join(textwrap.dedent(part) for part in (PRELUDE, *parts))
    last = ast.parse(script).body[-1]
    # Parts put together before they were dedented: the second continues the first's function.
    assert not isinstance(last, ast.FunctionDef | ast.ClassDef), "a script that does nothing"
    return script


def run_script(
    *parts: str,
    environment: dict[str, str] | None = None,
    when_ready: Callable[[subprocess.Popen], None] | None = None,
) -> Child:
    """Runs prelude and parts. `when_ready` is called with the process when it printed "ready"."""
    paths = [ROOT, ROOT / "python", ROOT / "tests" / "python"]
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", script_of(*parts)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    before = ""
    try:
        if when_ready is not None:
            for line in process.stdout:
                before += line
                if line.strip() == "ready":
                    when_ready(process)
                    break
        out, err = process.communicate(timeout=GUARD_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)  # faulthandler says where it hangs
        out, err = process.communicate()
        raise AssertionError(f"hangs: {Child(process.returncode, before + out, err)}") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return Child(process.returncode, before + out, err)


def check_script(*parts: str, environment: dict[str, str] | None = None) -> Child:
    """Runs it and asserts that it ended well."""
    child = run_script(*parts, environment=environment)
    assert child.code == 0, child
    return child
