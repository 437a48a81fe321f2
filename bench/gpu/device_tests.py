"""engine: the Python tests of tests/gpu: jobs on the device against plain PyTorch there, embedded
and through a lanewayd, programs that are killed. Each test is a row; what a test records (how far
states lie apart, say) is another. The files run side by side: nothing here is timed."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..report import ROOT
from .section import Section
from .watched_tests import Collected, Event, Result, Started, SuiteOfTests, WatchedTests, watch

FOLDER = ROOT / "tests/gpu"
TEST_S = 45.0  # what one may take; on a GPU seconds, and up to ten for each start of a lanewayd
REHEARSED_TEST_S = 300.0
MOST_TEXT = 2_000  # characters of what a test records in words


def run(section: Section) -> None:
    _run(section, [f for f in sorted(FOLDER.glob("test_*.py")) if section.fits(1, f.name)])


def run_file(section: Section, file: Path, words: Sequence[str] = ()) -> None:
    """The tests of one file, of which pytest's `words` may choose."""
    _run(section, [file], words)


def _run(section: Section, files: list[Path], chosen: Sequence[str] = ()) -> None:
    limit_s = TEST_S if section.settings.cuda else REHEARSED_TEST_S
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        watch(
            [
                WatchedTests(
                    section,
                    program_of(section, file, Path(folder), chosen),
                    limit_s,
                    lambda where, result: report(section, where, result),
                )
                for file in files
            ]
        )


def program_of(
    section: Section, file: Path, folder: Path, chosen: Sequence[str] = ()
) -> SuiteOfTests:
    """The tests of a file, as its folder's conftest.py tells of them."""
    # Nothing is held back: what a library says before it ends the process is the reason.
    words = [sys.executable, "-m", "pytest", "-v", "-s", "-p", "no:cacheprovider", str(file)]
    words += [f"--confcutdir={file.parent}", f"--rootdir={file.parent}", "--tb=short", *chosen]
    if section.settings.quick:
        words += ["-m", "not long"]
    lines = folder / f"{file.stem}.jsonl"
    environment = {
        # The machine's pytest may have plugins that these tests have never met.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "LANEWAY_TEST_DEVICE": section.settings.device,
        "LANEWAY_TEST_RECORD": str(lines),
    }
    return SuiteOfTests(
        file.stem,
        lambda done: [*words, *(word for test in done for word in ("--deselect", test))],
        understand,
        file.parent,
        environment,
        folder / f"{file.stem}.log",
        lines,
    )


def understand(line: str) -> Event | None:
    told = json.loads(line)
    if "collected" in told:
        return Collected(tuple(told["collected"]))
    if "started" in told:
        return Started(told["started"])
    return Result(told["ended"], told["outcome"], told["why"], told["recorded"])


def report(section: Section, where: str, result: Result) -> None:
    name = result.test.partition("::")[2] or result.test
    if result.outcome == "skipped":
        section.leave_out(f"{where}: {name}: {result.why}")
        return
    note = (result.why.strip().splitlines() or [""])[0][:400] or None
    section.test(where, name, result.outcome == "passed", note)
    for metric, value in result.recorded.items():
        if isinstance(value, str):
            section.add(f"{where}.{name}", metric, None, "", note=value[:MOST_TEXT])
        else:
            section.add(f"{where}.{name}", metric, float(value), "")
