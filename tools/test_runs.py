"""Runs tests that are built: those of a preset through ctest, the Python tests through pytest.
Standard library only."""

import os
import shutil
import subprocess
import sys
import time

import build
import torch_minors
from test_report import Part, read_junit, slowest

ROOT = build.ROOT
# On request: the preset's folder of tests, which alone is built and run.
TESTS_OF = {"asan-torch": "tests/adaptor"}
# Seconds that one C++ test may take before it counts as hung; the sanitizers slow it about tenfold.
TEST_TIMEOUT_S = 600
LONG_TEST_TIMEOUT_S = 7200  # with --long, under sanitizers, on a small machine


def run_ctest(part: Part, selection: list[str]) -> None:
    """The tests of the part's preset that `selection`, arguments of ctest, leaves."""
    directory = build.build_directory(part.name) / TESTS_OF.get(part.name, "")
    report = directory / "ctest.xml"
    report.unlink(missing_ok=True)
    part.at_a_time = os.cpu_count() or 1
    command = ["ctest", "--test-dir", str(directory), f"-j{part.at_a_time}", "--no-label-summary"]
    timeout = LONG_TEST_TIMEOUT_S if os.environ.get("LANEWAY_LONG") == "1" else TEST_TIMEOUT_S
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
    folder = ROOT / "tests/python"
    return tuple(sorted(file.name for pattern in patterns for file in folder.glob(pattern)))


# By the name of a part: what pytest is told, and the files that it runs; none: all of them.
PYTHON_PARTS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "python": ([], ()),
    "daemon": (["--service", "daemon"], DAEMON_TESTS),
    "remote": (["--device", "remote"], REMOTE_TESTS),
    "torch": ([], files_of(TORCH_TESTS)),
}


def run_pytest(arguments: list[str], name: str = "python", preset: str = "dev") -> Part:
    """The Python tests of a part, against what the preset built."""
    part = Part(name)
    folder = ROOT / "tests/python"
    if not any(folder.rglob("test_*.py")):
        return part
    built = build.build_directory(preset)
    report = built / f"pytest-{part.name}.xml"
    report.unlink(missing_ok=True)
    environment = dict(
        os.environ,
        LANEWAY_BUILD=str(built),  # where the programs of the service are
        LANEWAY_EMBEDDED_LIBRARY=str(built / build.EMBEDDED_LIBRARY),
        LANEWAY_CLIENT_LIBRARY=str(built / build.CLIENT_LIBRARY),
    )
    python = torch_minors.python_of(preset) or sys.executable
    command = [str(python), "-m", "pytest", "-q", f"--junitxml={report}"]
    options, files = PYTHON_PARTS[name]
    command += [*options, *([str(folder / file) for file in files] or [str(folder)])]
    started = time.monotonic()
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False)
    part.seconds = part.tests_seconds = time.monotonic() - started
    if report.exists():
        read_junit(part, report, show=False)
        print("\n".join(slowest(part)), flush=True)
    if done.returncode != 0 and not part.failures:
        part.failures.append(f"pytest exited with {done.returncode}")
    return part
