"""conformance: the C++ tests of devices: the conformance suite, which holds every device to one
page, and the tests of the CUDA device. Each program is a process; its tests are counted one by
one."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from ..report import ROOT, at_most
from .section import Section


def run(section: Section) -> None:
    programs = find_programs()
    if not programs:
        section.test("programs", "found", False, "there are no test programs in the build")
    for program in programs:
        if section.fits(3, program.name):
            _run(section, program)


def find_programs() -> list[Path]:
    """Those of the pack, which holds only what belongs here."""
    built = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build/release"))
    found = sorted((built / "tests").glob("*"))
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def _run(section: Section, program: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = os.environ | {"LANEWAY_TEST_DEVICE": section.settings.device}
        try:
            done = subprocess.run(
                [str(program), f"--gtest_output=json:{report}", "--gtest_brief=1"],
                cwd=folder,
                env=environment,
                timeout=max(3, section.left()),
                check=False,
            )
            ended = f"it ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = "it did not end in its time"
        if not report.exists():
            section.test(program.name, "ran", False, f"{ended} and left no report")
            return
        _count(section, program.name, json.loads(report.read_text()), ended)


def _count(section: Section, program: str, report: dict, ended: str) -> None:
    """Rows with the counts, and the first lines of the first failures."""
    counts: Counter[str] = Counter()
    failures = []
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            if test.get("failures"):
                counts["failed"] += 1
                why = test["failures"][0].get("failure", "").strip().splitlines()[:3]
                failures.append(f"{suite['name']}.{test['name']}: {' '.join(why)}")
            else:
                counts[test.get("result", "COMPLETED").lower()] += 1
    section.add(program, "passed", float(counts["completed"]), "tests")
    section.add(program, "skipped", float(counts["skipped"]), "tests")
    if not counts["completed"] and not failures and section.settings.rehearsal:
        section.leave_out(f"{program}: all of its tests were skipped")
        return
    if not counts["completed"] and not failures:
        failures.append("all of its tests were skipped: it found no device")
        counts["failed"] += 1
    if "ended with 0" not in ended and not failures:
        failures.append(ended)
        counts["failed"] += 1
    note = "; ".join(failures[:8]) or None
    section.add(
        program, "failed", float(counts["failed"]), "tests", at_most(0), note=note, test=True
    )
