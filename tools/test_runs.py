"""Runs C++ tests that are built: those of a preset through ctest. Standard library only."""

import os
import shutil
import subprocess
import sys
import time

import build
from test_report import Part, read_junit

ROOT = build.ROOT
# On request: the preset's folder of tests, which alone is built and run.
TESTS_OF = {"asan-torch": "tests/adaptor"}
# Seconds that one C++ test may take before it counts as hung; the sanitizers slow it about tenfold,
# and have what the Python tests leave of the processors.
TEST_TIMEOUT_S = 600
SANITIZED_TIMEOUT_S = 1800
LONG_TEST_TIMEOUT_S = 7200  # with --long, under sanitizers, on a small machine


def run_ctest(part: Part, selection: list[str]) -> None:
    """The tests of the part's preset that `selection`, arguments of ctest, leaves."""
    directory = build.build_directory(part.name) / TESTS_OF.get(part.name, "")
    report = directory / "ctest.xml"
    report.unlink(missing_ok=True)
    part.at_a_time = os.cpu_count() or 1
    command = ["ctest", "--test-dir", str(directory), f"-j{part.at_a_time}", "--no-label-summary"]
    sanitized = part.name.startswith(("asan", "tsan"))
    timeout = SANITIZED_TIMEOUT_S if sanitized else TEST_TIMEOUT_S
    if os.environ.get("LANEWAY_LONG") == "1":
        timeout = LONG_TEST_TIMEOUT_S
    command += ["--output-junit", str(report), "--timeout", str(timeout), "--progress"]
    command += selection
    started = time.monotonic()
    log_path = directory / "ctest.log"
    with log_path.open("w") as log:
        output = None if sys.stdout.isatty() else log
        done = subprocess.run(
            address_space(part.name) + command, cwd=ROOT, stdout=output, stderr=output, check=False
        )
    part.tests_seconds = time.monotonic() - started
    if not report.exists():
        part.failures.append(f"ctest of preset {part.name} wrote no report (see {log_path})")
        return
    read_junit(part, report)
    if done.returncode != 0 and not part.failures:
        part.failures.append(f"ctest of preset {part.name} exited with {done.returncode}")


def address_space(preset: str) -> list[str]:
    """The thread sanitizer needs a plain layout of the address space, which newer kernels
    randomise further than it knows."""
    if preset != "tsan":
        return []
    prefix = ["setarch", "--addr-no-randomize"]
    usable = shutil.which("setarch") and subprocess.run([*prefix, "true"], check=False).returncode
    return prefix if usable == 0 else []
