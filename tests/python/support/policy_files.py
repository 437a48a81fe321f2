"""Policies of tests from outside the tree: a Python file with one class, which may be started."""

from __future__ import annotations

import sys
from pathlib import Path

_BEGIN = f"""#!{sys.executable}
import os, signal, sys, time
from laneway import policy


class Mine(policy.Policy):
"""


def write_policy(path: Path, body: str, mode: int = 0o755) -> Path:
    """The class has these lines; `rank` among them. What was there is replaced."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.strip("\n").splitlines())
    path.write_text(f"{_BEGIN}{lines}\n\npolicy.main(Mine)\n")
    path.chmod(mode)
    return path


def process_of(service) -> dict:
    """What the status says of the policy's process."""
    return service.status()["service"]["policy_process"]
