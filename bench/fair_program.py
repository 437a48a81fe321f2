"""The rule of `fair` (policies/fair.h) for jobs that always have work, as a program from outside
the tree."""

from __future__ import annotations

import sys
from pathlib import Path

_TEXT = f"""#!{sys.executable}
from laneway import policy


class Fair(policy.Policy):
    def __init__(self, options):
        self.quantum_s = float(options["quantum_s"])
        self.begins = {{}}  # by job: a newcomer begins where the one is that had the least
        self.tags = {{}}

    def rank(self, job, now):
        if job.id not in self.begins:
            self.begins[job.id] = min(self.tags.values(), default=0.0)
        tag = self.begins[job.id] + job.busy_s / job.weight
        self.tags[job.id] = tag
        return policy.Rank(tag, per_busy_s=1 / job.weight, slice_s=self.quantum_s)

    def gone(self, job):
        self.begins.pop(job.id, None)
        self.tags.pop(job.id, None)


policy.main(Fair)
"""


def write(folder: Path) -> Path:
    """The program's file in `folder`, which nobody else may write."""
    path = folder / "fair.py"
    path.write_text(_TEXT)
    path.chmod(0o700)
    return path
