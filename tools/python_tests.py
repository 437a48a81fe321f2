"""Runs the Python tests through pytest: once each, and some of them again on another service,
device or torch. Standard library only."""

import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import build
import torch_minors
from test_report import Part, read_junit, slowest

ROOT = build.ROOT
FOLDER = ROOT / "tests/python"
# Tests mostly use one processor: several pytest processes run side by side.
AT_A_TIME = min(2, os.cpu_count() or 1)
# How many files one has: few, so that none runs for long after the others have ended. Each takes
# some five seconds to import torch.
CHUNK = 8
NO_TESTS = 5  # pytest's exit code when the arguments leave none

# What is run again with a lanewayd in the place of the embedded service.
DAEMON_TESTS = (
    "test_attach.py",
    "test_bad_inputs.py",
    "test_bad_inputs_forms.py",
    "test_bad_inputs_operators.py",
    "test_engine_gradients.py",
    "test_engine_loss_scaling.py",
    "test_engine_models.py",
    "test_engine_service.py",
    "test_engine_variants.py",
    "test_inference_modes.py",
    "test_loop_faults.py",
    "test_process_numeric.py",
    "test_step_by_hand.py",
    "test_step_saves.py",
    "test_step_several.py",
    "test_sync_loops.py",
    "test_sync_on_read.py",
)

# What is run again on the stand-in for a device that is not the host (tests/remote_backend).
REMOTE_TESTS = (
    "test_engine_gradients.py",
    "test_engine_loss_scaling.py",
    "test_engine_models.py",
    "test_engine_service.py",
    "test_engine_variants.py",
    "test_sync_loops.py",
    "test_sync_on_read.py",
)
# With another minor version of torch: what depends on it, in the time of a test run.
TORCH_TESTS = (
    "test_capture_*.py",
    "test_compile_*.py",
    "test_engine_models.py",
    "test_layouts.py",
    "test_loops.py",
    "test_mixed_torch.py",
    "test_package_places.py",
    "test_process_float32.py",
    "test_step_*.py",
    "test_torch_versions.py",
    "test_worker_choice.py",
)


def files_of(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(file.name for pattern in patterns for file in FOLDER.glob(pattern)))


# By the name of a part: what pytest is told, and the files that it runs.
PYTHON_PARTS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "python": ([], files_of(("test_*.py",))),
    "daemon": (["--service", "daemon"], DAEMON_TESTS),
    "remote": (["--device", "remote"], REMOTE_TESTS),
    "torch": ([], files_of(TORCH_TESTS)),
}


@dataclasses.dataclass
class Chunk:
    """What one pytest process runs of a part."""

    part: Part
    number: int
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.part.name}-{self.number}"


def chunks_of(part: Part) -> list[Chunk]:
    _, files = PYTHON_PARTS[part.name]
    starts = range(0, len(files), CHUNK)
    return [Chunk(part, 1 + at // CHUNK, files[at : at + CHUNK]) for at in starts]


def run_python_tests(
    arguments: list[str],
    names: tuple[str, ...],
    preset: str = "dev",
    wait_beside: Callable[[], object] | None = None,
) -> list[Part]:
    """The parts of these names, against what the preset built: their chunks side by side, in this
    order, one fewer at a time until `wait_beside` has come back. What a chunk prints is shown when
    it has ended."""
    parts = [Part(name, at_a_time=AT_A_TIME) for name in names]
    waiting = [chunk for part in parts for chunk in chunks_of(part)]
    print(f"dev: {len(waiting)} runs of pytest, {AT_A_TIME} at a time", flush=True)
    lock = threading.Lock()
    pool = concurrent.futures.ThreadPoolExecutor(AT_A_TIME)
    try:
        if wait_beside and AT_A_TIME > 1:
            pool.submit(wait_beside)
        running = [pool.submit(run_chunk, chunk, arguments, preset, lock) for chunk in waiting]
        for future in running:
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # wait_beside may go on when interrupted
    for part in parts:
        part.seconds = part.tests_seconds = part.seconds / AT_A_TIME
        print("\n".join(slowest(part)), flush=True)
    return parts


def run_chunk(chunk: Chunk, arguments: list[str], preset: str, lock: threading.Lock) -> None:
    built = build.build_directory(preset)
    report = built / f"pytest-{chunk.name}.xml"
    report.unlink(missing_ok=True)
    log = built / f"pytest-{chunk.name}.log"  # no pipe, which what a test leaves could keep open
    print(f"dev: pytest {chunk.name}: {chunk.files[0]} and {len(chunk.files) - 1} more", flush=True)
    started = time.monotonic()
    with log.open("w") as output:
        code = subprocess.run(
            [*command_of(chunk, preset), f"--junitxml={report}", *arguments],
            cwd=ROOT,
            env=environment_of(built),
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    with lock:
        print(f"dev: pytest {chunk.name}\n{log.read_text(errors='replace')}", end="", flush=True)
        chunk.part.seconds += time.monotonic() - started
        failed_before = len(chunk.part.failures)
        if report.exists():
            read_junit(chunk.part, report, show=False)
        left_none = code == NO_TESTS and arguments
        if code != 0 and not left_none and len(chunk.part.failures) == failed_before:
            chunk.part.failures.append(f"pytest {chunk.name} exited with {code}")


def command_of(chunk: Chunk, preset: str) -> list[str]:
    options, _ = PYTHON_PARTS[chunk.part.name]
    python = torch_minors.python_of(preset) or sys.executable
    return [str(python), "-m", "pytest", "-q", *options, *(str(FOLDER / f) for f in chunk.files)]


def environment_of(built: pathlib.Path) -> dict[str, str]:
    return dict(
        os.environ,
        LANEWAY_BUILD=str(built),  # where the programs of the service are
        LANEWAY_EMBEDDED_LIBRARY=str(built / build.EMBEDDED_LIBRARY),
        LANEWAY_CLIENT_LIBRARY=str(built / build.CLIENT_LIBRARY),
    )
