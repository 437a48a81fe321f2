"""conformance: the C++ tests of devices: the conformance suite, which holds every device to one
page, and the tests of the CUDA device. Tests are counted one by one; those that failed are rows."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from ..report import ROOT, at_most
from .section import Section
from .watched_tests import Event, Result, Started, SuiteOfTests, WatchedTests, watch

TEST_S = 20.0  # what one may take
OUTCOMES = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
# The summary at the end names tests again, without their time.
LINE = re.compile(
    r"^\[ +(?:(RUN) +\] ([\w/.]+)|(OK|FAILED|SKIPPED) +\] ([\w/.]+)(?:, where .*)? \(\d+ ms\))$"
)
# What googletest prints before the words of a skipped test.
WHERE = re.compile(r"^\S+:\d+: Skipped")


def run(section: Section) -> None:
    programs = find_programs()
    if not programs:
        section.test("programs", "found", False, "there are no test programs in the build")
    for program in programs:
        if section.fits(3, program.name):
            run_program(section, program)


def find_programs() -> list[Path]:
    """Those of the pack, which holds only what belongs here."""
    built = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build/release"))
    found = sorted((built / "tests").glob("*"))
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def run_program(section: Section, program: Path) -> None:
    """The tests of one program; why some were skipped is named."""
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()

    def count(where: str, result: Result) -> None:
        counts[result.outcome] += 1
        if result.outcome == "skipped":
            skipped[WHERE.sub("", result.why).strip() or "no word of why"] += 1
        if result.outcome == "failed":
            section.test(where, result.test, False, result.why)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        watch([WatchedTests(section, program_of(section, program, Path(folder)), TEST_S, count)])
    for why, number in skipped.items():
        section.leave_out(f"{program.name}: {number} tests: {why}")
    report(section, program.name, counts)


def program_of(section: Section, program: Path, folder: Path) -> SuiteOfTests:
    """The tests of a program, as googletest prints them."""
    return SuiteOfTests(
        program.name,
        lambda done: [str(program), *([f"--gtest_filter=-{':'.join(done)}"] if done else [])],
        Understanding(),
        folder,
        {"LANEWAY_TEST_DEVICE": section.settings.device, "GTEST_COLOR": "no"},
        folder / "output",
        tests=tests_of(program),
        fresh_after_failure=True,
    )


class Understanding:
    """googletest's lines as events; what a test printed is why it failed or was skipped."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __call__(self, line: str) -> Event | None:
        found = LINE.match(line)
        if found is None:
            self._said.append(line.strip())
            return None
        said, self._said = self._said, []
        if found[1]:
            return Started(found[2])
        return Result(found[4], OUTCOMES[found[3]], " ".join(filter(None, said))[:300])


def tests_of(program: Path) -> tuple[str, ...]:
    """Their full names, as the program lists them; none where it does not start."""
    try:
        done = subprocess.run(
            [str(program), "--gtest_list_tests"],
            capture_output=True,
            text=True,
            timeout=TEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    suite, tests = "", []
    for line in done.stdout.splitlines():
        name = line.partition("#")[0].strip()
        if line.startswith("  "):
            tests.append(suite + name)
        elif name.endswith("."):
            suite = name
    return tuple(tests)


def report(section: Section, program: str, counts: Counter[str]) -> None:
    """Rows with the counts; a device that was not found is a failure."""
    note = None
    if not counts["passed"] and not counts["failed"]:
        if section.settings.rehearsal:
            section.leave_out(f"{program}: all of its tests were skipped")
        else:
            counts["failed"], note = 1, "all of its tests were skipped: it found no device"
    section.add(program, "passed", float(counts["passed"]), "tests")
    section.add(program, "skipped", float(counts["skipped"]), "tests")
    failed = float(counts["failed"])
    section.add(program, "failed", failed, "tests", at_most(0), note=note, test=True)
