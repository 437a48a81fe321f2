"""engine: the Python tests of tests/gpu: jobs on the device against plain PyTorch there, embedded
and through a lanewayd, programs that are killed. Each test is a row; what a test records (how far
states lie apart, say) is another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from ..report import ROOT
from .section import Section

FOLDER = ROOT / "tests/gpu"


def run(section: Section) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A file after another: one that crashes its process takes no other with it.
        for file in sorted(FOLDER.glob("test_*.py")):
            if section.fits(10 if section.settings.cuda else 1, file.name):
                _run(section, file, Path(folder) / f"{file.stem}.xml")


def _run(section: Section, file: Path, report: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    command += ["-o", "junit_family=xunit1"]  # the form that holds what tests record
    if section.settings.quick:
        command += ["-m", "not long"]
    # The machine's pytest may have plugins that these tests have never met.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["LANEWAY_TEST_DEVICE"] = section.settings.device
    process = subprocess.Popen(
        [*command, f"--junitxml={report}", f"--confcutdir={FOLDER}", f"--rootdir={FOLDER}"],
        cwd=FOLDER,
        env=os.environ | environment,
    )
    try:
        ended = f"pytest ended with {process.wait(max(5, section.left()))}"
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # pytest then writes down what it has
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ended = "it did not end in its time"
    if not report.exists():
        section.test(file.stem, "ran", False, f"{ended} and left no report")
        return
    counted = 0
    for case in ElementTree.parse(report).iter("testcase"):
        counted += 1
        _report(section, file.stem, case)
    if not ended.endswith(("with 0", "with 1")):
        section.test(file.stem, "ran", False, f"{ended} after {counted} tests")


def _report(section: Section, where: str, case: ElementTree.Element) -> None:
    name = case.get("name", "?")
    failed = case.find("failure") if case.find("error") is None else case.find("error")
    skipped = case.find("skipped")
    if skipped is not None:
        section.leave_out(f"{where}: {name}: {skipped.get('message', '')}")
        return
    note = None
    if failed is not None:
        note = (failed.get("message") or failed.text or "").strip().splitlines()[0][:400]
    section.test(where, name, failed is None, note)
    for recorded in case.iter("property"):
        value = float(recorded.get("value", "nan"))
        section.add(f"{where}.{name}", recorded.get("name", "?"), value, "")
