"""What a bench found: rows with targets, raw samples, and where it ran; as JSON and as a table.

The JSON is the project's contract for bench results; rows and the document may carry more fields
than the contract names (`note`, `median`, `high`)."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Target:
    op: str  # ">=" or "<="
    value: float

    def __post_init__(self) -> None:
        if self.op not in (">=", "<="):
            raise ValueError(f"a target's op is >= or <=, not {self.op!r}")

    def holds(self, value: float | None) -> bool | None:
        """Whether `value` meets the target; None when there is no value."""
        if value is None:
            return None
        return value >= self.value if self.op == ">=" else value <= self.value


def at_least(value: float) -> Target:
    return Target(">=", value)


def at_most(value: float) -> Target:
    return Target("<=", value)


@dataclass
class Report:
    """Collects one bench's rows in the order in which they are printed."""

    bench: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    samples: dict[str, list[Any]] = field(default_factory=dict)

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
        """One figure. `value` None means that it could not be measured; `note` then says why."""
        if value is None and not note:
            raise ValueError(f"{case}/{metric} has no value and no note that says why")
        holds = target.holds(value) if target else None
        row = {"case": case, "metric": metric, "unit": unit, "value": value}
        row |= {"target": asdict(target) if target else None, "holds": holds}
        self.rows.append(row | ({"note": note} if note else {}) | more)
        if samples is not None:
            self.samples[f"{case}/{metric}"] = list(samples)

    def missed(self) -> list[dict[str, Any]]:
        """Rows with a target that was not met or could not be measured."""
        return [row for row in self.rows if row["target"] and row["holds"] is not True]

    def document(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "commit": commit(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "rows": self.rows,
            "samples": self.samples,
        }

    def write(self, folder: Path) -> Path:
        """Writes FOLDER/BENCH.json, whole or not at all, and returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.bench}.json"
        text = json.dumps(self.document(), indent=1, allow_nan=False)
        partial = path.with_suffix(".json.partial")
        partial.write_text(text + "\n")
        partial.replace(path)
        return path

    def table(self) -> str:
        """The rows as aligned columns: case, metric, value, target, holds, note."""
        lines = [("case", "metric", "value", "target", "holds", "")]
        for row in self.rows:
            target = row["target"]
            lines.append(
                (
                    row["case"],
                    row["metric"],
                    _number(row["value"], row["unit"]),
                    f"{target['op']} {target['value']:g}" if target else "",
                    {True: "yes", False: "NO", None: ""}[row["holds"]],
                    row.get("note", ""),
                )
            )
        widths = [max(len(line[column]) for line in lines) for column in range(5)]
        return "\n".join(
            "  ".join(
                [text.ljust(width) for text, width in zip(line, widths, strict=False)] + [line[5]]
            ).rstrip()
            for line in lines
        )


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return text if unit in ("ratio", "bool", "") else f"{text} {unit}"


def commit() -> str | None:
    """The commit that was measured, with "-dirty" when tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changes = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.decode().strip() + ("-dirty" if changes.returncode else "")


def machine() -> dict[str, Any]:
    """What the figures depend on; nothing that names the host or its folders."""
    import torch

    return {
        "cpu": _line_after("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _line_after(path: str, key: str) -> str | None:
    try:
        with open(path) as lines:
            return next((s.split(":", 1)[1].strip() for s in lines if s.startswith(key)), None)
    except OSError:
        return None
