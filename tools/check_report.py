"""The report of gpu-check: gpu_check.json for programs and gpu_check.md for readers, both rewritten
whole after every result, so that whatever ends the run leaves what was found. Standard library
only."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
from typing import Any

RAN = "ran"
PENDING = "not reached"
REHEARSAL = (
    "A rehearsal without a GPU: it shows that the sections run; no figure in it means anything."
)


@dataclasses.dataclass
class SectionResult:
    """What became of one section."""

    name: str
    question: str
    status: str = PENDING  # RAN, or what happened instead
    reason: str = ""
    seconds: float = 0.0
    limit_s: float = 0.0
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    left_out: list[str] = dataclasses.field(default_factory=list)
    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> None:
        """One line that the section's process wrote (bench/gpu/section.py)."""
        if "row" in line:
            row = dict(line["row"])
            samples = row.pop("samples", None)
            self.rows.append(row)
            if samples is not None:
                self.samples[f"{row['case']}/{row['metric']}"] = samples
        if "left_out" in line:
            self.left_out.append(line["left_out"])

    def failed_tests(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row.get("test") and row["holds"] is not True]


class Report:
    """Collects and writes. `about` is what is known of the run besides its sections."""

    def __init__(self, folder: pathlib.Path, sections: list[SectionResult]) -> None:
        self.folder = folder
        self.sections = sections
        self.about: dict[str, Any] = {
            "bench": "gpu_check",
            "status": "running",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def passed(self) -> bool:
        """Whether every section ran to its end and none of its tests failed."""
        return all(s.status == RAN and not s.failed_tests() for s in self.sections)

    def document(self) -> dict[str, Any]:
        sections, samples, rows = {}, {}, []
        for section in self.sections:
            sections[section.name] = {
                "question": section.question,
                "status": section.status,
                "reason": section.reason,
                "seconds": round(section.seconds, 1),
                "limit_s": round(section.limit_s, 1),
                "left_out": section.left_out,
            }
            rows += [{"section": section.name, **row} for row in section.rows]
            samples |= {f"{section.name}/{key}": s for key, s in section.samples.items()}
        return self.about | {"sections": sections, "rows": rows, "samples": samples}

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.folder / "gpu_check.json", json.dumps(self.document(), indent=1) + "\n")
        _replace(self.folder / "gpu_check.md", self.text())

    def text(self) -> str:
        """The readable form."""
        lines = ["# gpu-check", "", *self._heading(), ""]
        lines += [
            "| section | what became of it | seconds | question |",
            "| --- | --- | --- | --- |",
        ]
        for section in self.sections:
            cells = (section.name, _outcome(section), f"{section.seconds:.0f}", section.question)
            lines.append(f"| {' | '.join(cells)} |")
        for section in self.sections:
            if section.rows or section.left_out:
                lines += ["", f"## {section.name}", "", *_table(section)]
        lines += self._kernel()
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """What became of the sections, tests that failed, and every target: for a terminal that
        shows little."""
        lines = []
        for section in self.sections:
            lines.append(f"{section.name}: {_outcome(section)}, {section.seconds:.0f} s")
            for row in section.rows:
                passed = row["holds"] is True
                if row["target"] and not (row.get("test") and passed):
                    word = "PASS" if passed else "FAIL" if row.get("test") else "MISS"
                    note = row.get("note") or ""
                    said = f"{row['case']} {row['metric']}: {_value(row)} {note}".strip()
                    lines.append(f"  {word} {_cell(said)[:160]}")
        return "\n".join(lines)

    def _kernel(self) -> list[str]:
        """What the kernel's log said of the driver meanwhile; nothing is worth no word."""
        about = self.about
        if about.get("kernel_unread"):
            return ["", f"The kernel's log could not be read: {_cell(about['kernel_unread'])}"]
        if not about.get("kernel"):
            return []
        return ["", "## The kernel's log", "", *(f"- `{line}`" for line in about["kernel"])]

    def _heading(self) -> list[str]:
        about = self.about
        reason = f": {about['reason']}" if about.get("reason") else ""
        lines = [f"**{about['status']}**{reason}"]
        if about.get("rehearsal"):
            lines += ["", REHEARSAL]
        lines += ["", f"- date: {about['date']}", f"- commit: {about.get('commit') or 'not known'}"]
        for name, value in (about.get("machine") or {}).items():
            lines.append(f"- {name.replace('_', ' ')}: {value}")
        return lines


def _outcome(section: SectionResult) -> str:
    failed, reason = section.failed_tests(), section.reason.splitlines()
    text = section.status
    if failed:
        text += f", {len(failed)} of its tests failed"
    elif section.status == RAN:
        held = [row["holds"] for row in section.rows if row["target"] and not row.get("test")]
        text += f", {held.count(True)} of {len(held)} targets met" if held else ""
    return text + (f": {_cell(reason[0])}" if reason else "")


def _table(section: SectionResult) -> list[str]:
    lines = []
    if section.rows:
        lines += ["| case | metric | value | target | | |", "| --- | --- | --- | --- | --- | --- |"]
    for row in section.rows:
        target = row["target"]
        wanted = f"{target['op']} {target['value']:g}" if target else ""
        verdict = {True: "PASS", False: "MISS", None: "MISS" if target else ""}[row["holds"]]
        cells = (row["case"], row["metric"], _value(row), wanted, verdict, row.get("note", ""))
        lines.append("| " + " | ".join(_cell(str(cell)) for cell in cells) + " |")
    if section.left_out:
        lines += ["", "Left out:", *(f"- {text}" for text in section.left_out)]
    return lines


def _value(row: dict[str, Any]) -> str:
    value, unit = row["value"], row["unit"]
    if value is None:
        return "-"
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return text if unit in ("ratio", "bool", "") else f"{text} {unit}"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def _replace(path: pathlib.Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
