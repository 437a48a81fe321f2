"""A section of gpu-check in a process of its own.

    python -m bench.gpu.section NAME FILE SECONDS

runs the section and appends what it finds to FILE, a JSON object a line: {"row": …} as
bench/report.py has them, with "samples", or {"left_out": text}. Settings come from the environment
(tools/gpu_check.py), or are those of a machine with a GPU. Ends by itself after about SECONDS: what
did not fit is left out and named."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..harness import Calibration, progress
from ..report import Report, Target

ALONE_S = 3600.0
# Section -> the module with its `run(section)`.
MODULES = {
    "machine": "machine",
    "contact": "contact",
    "compile": "warm_compile",
    "conformance": "programs",
    "engine": "device_tests",
    "overhead": "overhead",
    "service": "service_latency",
    "sharing": "sharing",
    "link": "link",
    "launch": "launch",
    "partition": "partition",
    "placing": "placing",
    "switching": "switching",
}


@dataclass(frozen=True)
class Settings:
    """What is measured and how. `cuda`: torch sees a device; without, plain PyTorch runs on the
    CPU, beside whatever device the plugin brings, and no figure means anything."""

    device: str = "cuda:0"
    quick: bool = False
    cuda: bool = True
    rehearsal: bool = False

    @property
    def plain_device(self) -> str:
        """Where plain PyTorch runs."""
        return self.device if self.cuda else "cpu"

    @classmethod
    def of_environment(cls) -> Settings:
        return cls(**json.loads(os.environ.get("LANEWAY_GPU_CHECK", "{}")))


@dataclass
class Section(Report):
    """A Report whose rows are written down as they are found, with a clock."""

    settings: Settings = field(default_factory=Settings)
    # Of time.monotonic(); outside of gpu-check longer than any bench takes.
    until: float = field(default_factory=lambda: time.monotonic() + ALONE_S)
    file: TextIO | None = None
    calibration: Calibration = field(default_factory=Calibration)

    def add(
        self,
        case: str,
        metric: str,
        value: float | None,
        unit: str,
        target: Target | None = None,
        samples: list[float] | None = None,
        note: str | None = None,
        **more: Any,
    ) -> None:
        if value is not None and not abs(value) < float("inf"):  # JSON has no word for it
            value, note = None, f"came out as {value}"
        super().add(case, metric, value, unit, target, samples, note, **more)
        row = dict(self.rows[-1])
        if samples is not None:
            row["samples"] = list(samples)
        self._write({"row": row})

    def test(self, case: str, metric: str, passed: bool, note: str | None = None) -> None:
        """A row that fails the run when it did not pass."""
        self.add(case, metric, float(passed), "bool", Target(">=", 1), note=note, test=True)

    @contextlib.contextmanager
    def attempt(
        self, case: str, metric: str, unit: str, target: Target | None = None
    ) -> Iterator[None]:
        """What fails within the block is the note of this row; what comes after goes on."""
        try:
            yield
        except Exception as error:  # whatever it is, it is the reason
            text = (str(error).strip().splitlines() or ["no word of why"])[0]
            self.add(case, metric, None, unit, target, note=f"{type(error).__name__}: {text}")

    def leave_out(self, text: str) -> None:
        progress(f"{self.bench}: left out: {text}")
        self._write({"left_out": text})

    def left(self) -> float:
        """Seconds until the end of the section's time."""
        return self.until - time.monotonic()

    def fits(self, seconds: float, what: str) -> bool:
        """Whether there is time for it; what there is none for is named as left out."""
        if self.left() >= seconds:
            return True
        self.leave_out(f"{what}: {max(self.left(), 0):.0f} s were left, it takes {seconds:.0f}")
        return False

    def add_calibration(self) -> None:
        samples = self.calibration.samples_ms
        if samples:
            middle = sorted(samples)[len(samples) // 2]
            self.add("calibration", "loop_ms", middle, "ms", samples=samples)

    def _write(self, line: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(line, allow_nan=False) + "\n")
            self.file.flush()


def main(words: list[str]) -> int:
    if len(words) != 3 or words[0] not in MODULES:
        print(f"usage: section NAME FILE SECONDS; NAME of {', '.join(MODULES)}", file=sys.stderr)
        return 2
    name, path, seconds = words[0], Path(words[1]), float(words[2])
    signal.signal(signal.SIGTERM, _leave)
    module = importlib.import_module(f"bench.gpu.{MODULES[name]}")
    with path.open("a") as file:
        section = Section(name, settings=Settings.of_environment(), file=file)
        # The rest is for leaving: workers that end, a daemon that stops.
        section.until = time.monotonic() + seconds * 0.9 - 1.0
        module.run(section)
        section.add_calibration()
    return 0


def _leave(number: int, frame: object) -> None:
    """Asked to end: blocks are left, so that daemons stop and folders go."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
