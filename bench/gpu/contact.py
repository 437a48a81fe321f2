"""contact: what has to be known first of a GPU that the project has never met? Eight measurements,
each with a limit of its own and in processes of its own, each answering one question; they run only
when gpu-check is told so (--only contact). A measurement that crashes or hangs costs the others
nothing. What each prints while it runs is in the log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..report import ROOT
from . import device_tests, programs
from .section import Section

LEAVE_S = 3.0  # between asking a process to say where it is and ending it
SHORTEST_S = 5.0  # below it nothing of a measurement can be found out
REHEARSED_LIMIT_S = 300.0
LANES_COUNTS = (10, 30, 120)
BUSY_CASE_S = 20.0
MEMCHECK, MEMCHECK_S = "compute-sanitizer", 40.0
REPLAY_CASES = ("mlp/default", "mlp/fused", "gpt/default", "gpt/fused", "cnn/default")
MORE_REPLAY_CASES = ("lstm/default", "resnet18/default", "gpt_large/default")
BUSY_CASES = (
    ("resnet18", "default", "auto"),
    ("gpt_large", "default", "auto"),
    ("gpt_large", "default", "off"),
    ("mlp", "fused", "on"),
)


@dataclass(frozen=True)
class Measurement:
    """`limit_s`: what it may take, on a GPU; all of them fit into what gpu-check gives."""

    name: str
    question: str
    limit_s: float
    run: Callable[[Section], None]


def _driver(section: Section) -> None:
    _probe(section, "attributes", section.settings.device)
    found = programs.find_programs()
    if not found:
        section.leave_out("driver: there are no test programs in the build")
    for program in found:
        if section.fits(3, program.name):
            programs.run_program(section, program)


def _replay(section: Section) -> None:
    cases = REPLAY_CASES[:1] if section.settings.quick else REPLAY_CASES + MORE_REPLAY_CASES
    seconds = "0.1" if section.settings.quick else "1.2"
    _probe(section, "replay", section.settings.device, seconds, *cases)


def _neighbours(section: Section) -> None:
    seconds = "1" if section.settings.quick else "10"
    _probe(section, "neighbours", section.settings.device, seconds)


def _copies(section: Section) -> None:
    if not section.settings.cuda:
        section.leave_out("copies: torch sees no device")
        return
    mib = "16" if section.settings.quick else "1024"
    _probe(section, "copies", section.settings.device, mib)


def _busy(section: Section) -> None:
    if not section.settings.cuda:
        section.leave_out("busy: torch sees no device")
        return
    for case in BUSY_CASES[-1:] if section.settings.quick else BUSY_CASES:
        with _within(section, BUSY_CASE_S):
            _probe(section, "busy", section.settings.device, *case)
    _probe(
        section, "stall", section.settings.device, "mlp" if section.settings.quick else "resnet18"
    )


def _service(section: Section) -> None:
    device_tests.run_file(section, device_tests.FOLDER / "test_gpu_service.py")


def _lanes(section: Section) -> None:
    if not section.settings.cuda:
        section.leave_out("lanes: torch sees no device")
        return
    counts = (4, 8) if section.settings.quick else LANES_COUNTS
    words = [section.settings.device, *map(str, counts)]
    program = [sys.executable, "-m", "bench.device_memory_probe"]
    lines = _lines_of(section, "lanes", [*program, *words])
    for found in lines:
        beyond = {int(count): used for count, used in found["beyond_pool_bytes"].items()}
        for count, used in beyond.items():
            section.add("lanes", f"beyond_pool_after_{count}", used, "B")
        grown = beyond[max(beyond)] - beyond[min(beyond)]
        note = "of all processes on the device; what the driver needs comes in steps"
        section.add("lanes", "growth", grown, "B", note=note)
        section.add("lanes", "replayed_iterations", found["replayed_count"], "")


def _partitions(section: Section) -> None:
    file = device_tests.FOLDER / "test_gpu_engine.py"
    device_tests.run_file(section, file, ["-k", "partitions or replayed"])


MEASUREMENTS = (
    Measurement("driver", "pools of two processes, streams of partitions, order", 40, _driver),
    Measurement("replay", "what is replayed, why not, and what does it save?", 85, _replay),
    Measurement("neighbours", "does the user's own CUDA work meet ours?", 30, _neighbours),
    Measurement("copies", "what carries the link, and what reaches it?", 35, _copies),
    Measurement("busy", "is the device kept busy, does a start hold others up?", 75, _busy),
    Measurement("service", "does a lanewayd start, keep bits, survive kills?", 65, _service),
    Measurement("lanes", "does memory beside the pool grow with jobs?", 20, _lanes),
    Measurement("partitions", "torch, libraries and recordings in a partition", 35, _partitions),
)


def run(section: Section) -> None:
    for measurement in MEASUREMENTS:
        if not section.fits(SHORTEST_S, f"{measurement.name}: {measurement.question}"):
            continue
        before = section.left()
        limit_s = measurement.limit_s if section.settings.cuda else REHEARSED_LIMIT_S
        with _within(section, limit_s), section.attempt(measurement.name, "ran", "bool"):
            measurement.run(section)
        section.add(measurement.name, "took", before - section.left(), "s")
    if shutil.which(MEMCHECK) and section.settings.cuda and section.fits(MEMCHECK_S, MEMCHECK):
        _memcheck(section)


def _memcheck(section: Section) -> None:
    """With what is left of the time: does NVIDIA's checker of memory find fault with a replayed
    job?"""
    words = [MEMCHECK, "--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "5"]
    probe = [sys.executable, "-m", "bench.gpu.contact_probe", "replay", section.settings.device]
    _lines_of(section, "memcheck", [*words, *probe, "0.1", "mlp/fused"])


@contextmanager
def _within(section: Section, seconds: float) -> Iterator[None]:
    """The section's time ends so early for what is in the block."""
    until = section.until
    section.until = min(until, until - section.left() + seconds)
    try:
        yield
    finally:
        section.until = until


def _probe(section: Section, name: str, *words: str) -> None:
    """Rows that bench.gpu.contact_probe prints for this measurement."""
    program = [sys.executable, "-m", "bench.gpu.contact_probe"]
    for row in _lines_of(section, name, [*program, name, *words]):
        section.add(
            f"{name}_{row['case']}", row["metric"], row["value"], row["unit"], note=row.get("note")
        )


def _lines_of(section: Section, case: str, words: list[str]) -> list[dict[str, Any]]:
    """What a process printed, a JSON object a line, until it ended or the time was over; how it
    ended is a row where that was not well."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    path = [str(ROOT), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        with out.open("wb") as output, err.open("wb") as errors:
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            why = _wait(process, section.left())
        said = err.read_text(errors="replace")
        print(f"-- {case}\n{out.read_text(errors='replace')}{said[-(1 << 16) :]}", flush=True)
        found = _objects(out.read_text(errors="replace"))
    if why:
        told = [line for line in said.strip().splitlines() if "Error" in line] or [""]
        section.add(case, "ended", None, "", note=f"{why}; {told[-1]}"[:400])
    return found


def _wait(process: subprocess.Popen, seconds: float) -> str:
    """Until it has ended; why it did not end well."""
    try:
        code = process.wait(max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # it says where each of its threads is
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return f"took longer than {seconds:.0f} s"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with {code}" if code else ""


def _objects(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        try:
            told = json.loads(line)
        except json.JSONDecodeError:  # a warning of somebody's, or cut off
            continue
        if isinstance(told, dict):
            found.append(told)
    return found
