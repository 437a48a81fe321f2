"""Runs every test there is and adds them up: the C++ tests of each preset through ctest, the Python
tests through pytest. Used by ./dev test. Standard library only.

The last line is "N passed, N failed". A part that cannot be built or started counts as one failed
test, and so does a run that found no test at all.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import build
import left_out
import lint
import torch_minors
import unseen_lines
from python_tests import run_python_tests
from test_report import Part, slowest, without_long_form, write_times
from test_runs import TESTS_OF, run_ctest

ROOT = build.ROOT
PRESETS = ("dev", "asan", "tsan")
# Sources that clang-tidy reads in one run, of those that changed: each takes up to half a minute.
MOST_TIDY_SOURCES = 12

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def run_preset(
    preset: str, label: str | None, without: list[left_out.Program] | None = None
) -> Part:
    """Builds `preset` and runs its tests, but for the programs `without`."""
    print(f"dev: preset {preset}", flush=True)
    started = time.monotonic()
    part = build_part(preset, without or [])
    if part.built and preset == "dev":
        offer_package(preset)
    if part.built:
        selection = ["-L", f"^{re.escape(label)}$"] if label else []
        run_ctest(part, selection + left_out.ctest_arguments(without or []))
    part.seconds = time.monotonic() - started
    print("\n".join([*slowest(part), part.line()]), flush=True)
    return part


def build_part(preset: str, without: list[left_out.Program]) -> Part:
    part = Part(preset)
    try:
        targets = [f"{TESTS_OF[preset]}/all"] if preset in TESTS_OF else None
        if without:
            targets = left_out.other_targets(without)
        build.build(preset, targets, quiet=True)
    except build.BuildError as error:
        part.failures.append(f"build of preset {preset}: {error}")
        part.built = False
    return part


def run_clang_tidy() -> Part:
    """clang-tidy over the sources that changed, each a test. The dev preset is configured."""
    part = Part("tidy")
    started = time.monotonic()
    changed = lint.changed_since_last_commit()
    if changed is None:
        print("dev: clang-tidy is left out: git has no commit to compare with")
        return part
    if shutil.which("clang-tidy") is None:
        part.failures.append("clang-tidy is not installed: ./dev lint installs it")
        return part
    units = lint.compile_units([path for path in changed if path.endswith(lint.CPP)])
    left_out = units[MOST_TIDY_SOURCES:]
    for unit, clean in lint.tidy_all(units[:MOST_TIDY_SOURCES]).items():
        part.passed += clean
        if not clean:
            part.failures.append(f"clang-tidy: {unit}")
    if left_out:
        print(f"dev: clang-tidy left out {len(left_out)} of {len(units)} sources that changed")
        print("dev: ./dev lint --since HEAD^ reads them too")
    part.seconds = time.monotonic() - started
    return part


def check_unseen_lines() -> Part:
    """Whether the sanitizers' presets compile all but a few of the product's lines."""
    part = Part("unseen")
    try:
        _, counts = unseen_lines.unseen_files()
    except FileNotFoundError as error:
        part.failures.append(f"lines that no sanitizer sees: {error.filename} is missing")
        return part
    print(f"dev: {unseen_lines.report(counts)}")
    if unseen_lines.outside_torch(counts).percent > unseen_lines.MOST_UNSEEN_PERCENT:
        part.failures.append(unseen_lines.report(counts))
    else:
        part.passed = 1
    return part


class PresetsBeside:
    """The other presets, built and run by a process of their own, at low priority. It stays in the
    Python tests' session, because Linux shares the processors out by session first (autogroup),
    where one of its own would get half whatever its priority. Its output is shown when it has
    ended."""

    def __init__(self, presets: list[str], label: str | None) -> None:
        folder = build.build_directory("dev")
        self._parts, self._log = folder / "beside.json", folder / "beside.log"
        self._parts.unlink(missing_ok=True)
        command = ["nice", "-n", "5", sys.executable, __file__, "--parts", str(self._parts)]
        for preset in presets:
            command += ["--preset", preset]
        command += ["--label", label] if label else []
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, process_group=0
            )

    def __enter__(self) -> "PresetsBeside":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        self.wait()

    def wait(self) -> None:
        self._process.wait()

    def parts(self) -> list[Part]:
        """What came out of it. Waits for its end."""
        self.wait()
        print(self._log.read_text(errors="replace"), end="", flush=True)
        if not self._parts.exists():
            code = self._process.returncode
            return [Part("beside", failures=[f"the other presets: exited with {code}"])]
        return [Part(**part) for part in json.loads(self._parts.read_text())]


def run_python(arguments: argparse.Namespace, beside: PresetsBeside | None) -> list[Part]:
    names = ("python", "daemon", "remote")
    parts = run_python_tests(arguments.pytest, names, wait_beside=beside.wait if beside else None)
    if arguments.label is None:
        parts.append(run_clang_tidy())
    return parts


# What of C++ depends on torch.
TORCH_PROGRAMS = ("adaptor_test", "adaptor_input_test", "cuda_allocator_test", "cuda_lane_test")


def run_torch(minor: str, pytest: list[str]) -> list[Part]:
    """Builds with another minor version of torch what is for one, and runs what depends on it."""
    print(f"dev: torch {minor}", flush=True)
    part, started = Part(torch_minors.build_name(minor)), time.monotonic()
    try:
        targets = [*TORCH_PROGRAMS, "other_torch", torch_minors.PROGRAMS]
        build.build(part.name, targets, quiet=True)
    except build.BuildError as error:
        part.failures.append(f"build with torch {minor}: {error}")
        return [part]
    build.link_into_venv(part.name)
    run_ctest(part, ["-L", f"^({'|'.join(TORCH_PROGRAMS)})$"])
    part.seconds = time.monotonic() - started
    print("\n".join([*slowest(part), part.line()]), flush=True)
    return [part, *run_python_tests(pytest, ("torch",), part.name)]


def run_parts(arguments: argparse.Namespace) -> list[Part]:
    minors = torch_minors.chosen(arguments.torch)
    if minors:
        return [part for minor in minors for part in run_torch(minor, arguments.pytest)]
    parts = []
    without: list[left_out.Program] = []
    if {"dev", left_out.PRESET} <= set(arguments.presets) and arguments.label is None:
        without = left_out_of_dev()
    if "dev" in arguments.presets:
        parts.append(run_preset("dev", arguments.label, without))
    others = [preset for preset in arguments.presets if preset != "dev"]
    if parts and parts[0].built and arguments.label in (None, "python"):
        with PresetsBeside(others, arguments.label) if others else contextlib.nullcontext() as them:
            parts.extend(run_python(arguments, them))
            parts.extend(them.parts() if them else [])
    else:
        parts.extend(run_preset(preset, arguments.label) for preset in others)
    for part in parts:
        if part.name == left_out.PRESET and part.built:
            left_out.check(without, part)
    if {"dev", *unseen_lines.SANITIZED} <= set(arguments.presets) and arguments.label is None:
        parts.append(check_unseen_lines())
    return parts


def left_out_of_dev() -> list[left_out.Program]:
    """What the address sanitizer runs anyway; nothing if a preset cannot be configured, which its
    part will say."""
    try:
        for preset in ("dev", left_out.PRESET):
            build.configure(preset, quiet=True)
        without = left_out.left_out()
    except build.BuildError:
        return []
    print(f"dev: {len(without)} programs of torch-free tests run in {left_out.PRESET} alone")
    return without


def offer_package(preset: str) -> None:
    """After a first ./dev test the package is usable too; a release build stays preferred."""
    if not list(build.PACKAGE_LIBRARIES.glob("*.so")):
        build.link_package_libraries(preset)
    released = (build.build_directory("release") / "build.ninja").exists()
    build.link_into_venv("release" if released else preset)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev test",
        description="Build and run the tests. Without options: the dev preset with every label, "
        "the Python tests, clang-tidy over what changed, and the torch-free parts by clang with "
        "its thread-safety analysis: all of their tests under the address sanitizer (dev leaves "
        "those out), the ones with threads under the thread sanitizer. The preset asan-torch, "
        "on request, has adaptor/ with LibTorch under the address sanitizer. The last line is "
        '"N passed, N failed"; the exit code is 0 only if none failed and at least one ran.',
        epilog="LANEWAY_SEED=N repeats the random tests with that seed.",
    )
    parser.add_argument("--fast", action="store_true", help="the dev preset, all of it, and Python")
    parser.add_argument(
        "--label",
        help="only tests with this label: unit, conformance, simulation, integration, threads, "
        "gpu, tidy or a program's name (ctest), or python (pytest)",
    )
    parser.add_argument(
        "--preset",
        action="append",
        choices=(*PRESETS, *TESTS_OF),
        help="only this preset (repeatable)",
    )
    parser.add_argument(
        "--long", action="store_true", help="long forms of tests that have one (LANEWAY_LONG=1)"
    )
    parser.add_argument(
        "--pytest", action="append", default=[], metavar="ARG", help="an argument for pytest"
    )
    torch_minors.add_option(parser, "instead: what depends on torch,")
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    # Where the parts are written as JSON, for the run that this one is a part of.
    parser.add_argument("--parts", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.presets = arguments.preset or list(PRESETS)
    if not arguments.preset and (arguments.fast or arguments.label):
        arguments.presets = ["dev"]
    return arguments


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    if arguments.long:
        os.environ["LANEWAY_LONG"] = "1"
    for name, value in SANITIZER_OPTIONS.items():
        os.environ.setdefault(name, value)
    try:
        parts = run_parts(arguments)
    except KeyboardInterrupt:
        print("dev: interrupted", file=sys.stderr)
        return 130
    if arguments.parts:
        arguments.parts.write_text(json.dumps([dataclasses.asdict(part) for part in parts]))
        return 0
    if arguments.label is None and arguments.torch is None:
        write_times(parts, build.build_directory("dev") / "times.json")
    print("\nSummary")
    for part in parts:
        print(f"  {part.line()}")
    failures = [failure for part in parts for failure in part.failures]
    for failure in failures:
        print(f"  FAILED {failure}")
    for name in [name for part in parts if part.name == "dev" for name in without_long_form(part)]:
        print(f"  slow, and without a long form: {name}")
    passed = sum(part.passed for part in parts)
    if passed + len(failures) == 0:
        print("  no test ran")
    sys.stdout.flush()
    print(f"{passed} passed, {len(failures)} failed", flush=True)
    return 1 if failures or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
