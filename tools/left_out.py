"""Tests that the dev preset leaves out of a run of all presets, because the address sanitizer runs
the same sources: programs that link no torch and start none that does. Used by run_tests.py.
Standard library only.

What is needed to know it is written when a preset is configured: link_table.txt (who links what)
and test_table.txt (NAME;FOLDER;LABEL,…;STARTS,…;SOURCE;…).
"""

import dataclasses
import json
import pathlib
import re
import subprocess

import build
from test_report import Part, plain_name

ROOT = build.ROOT
PRESET = "asan"
# Where the optimised build is what makes the test worth its name: thousands of simulated worlds, a
# device that the sanitizer's address space has no room for.
KEPT_LABELS = {"simulation", "gpu"}
TORCH = "torch::"
DEFINED = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Program:
    """One program of tests, as laneway_test was told of it."""

    name: str
    labels: frozenset[str]
    starts: tuple[str, ...]
    sources: tuple[str, ...]


def programs(preset: str) -> dict[str, Program]:
    found = {}
    for line in (build.build_directory(preset) / "test_table.txt").read_text().splitlines():
        name, _, labels, starts, *sources = line.split(";")
        found[name] = Program(
            name, frozenset(labels.split(",")), tuple(starts.split(",")), tuple(sources)
        )
    return found


def links(preset: str) -> dict[str, list[str]]:
    """By target: what it links itself."""
    table = (build.build_directory(preset) / "link_table.txt").read_text()
    rows = [line.split(";") for line in table.splitlines()]
    return {name: linked for name, _, _, *linked in rows}


def reaches_torch(targets: list[str], linked: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(targets)
    while waiting:
        target = waiting.pop()
        if target.startswith(TORCH):
            return True
        if target not in seen:
            seen.add(target)
            waiting += linked.get(target, [])
    return False


def left_out() -> list[Program]:
    """Of the dev preset. Both presets are configured."""
    again, linked = programs(PRESET), links("dev")
    return [
        program
        for name, program in sorted(programs("dev").items())
        if not program.labels & KEPT_LABELS
        and name in again
        and again[name].sources == program.sources
        and not reaches_torch([name, *program.starts], linked)
    ]


def other_targets(without: list[Program]) -> list[str]:
    """What is built of the dev preset when `without` is left out."""
    names = {program.name for program in without}
    return [target for target in links("dev") if target not in names]


def ctest_arguments(without: list[Program]) -> list[str]:
    """Each test carries its program's name as a label; a program that is not built stands for its
    tests by NAME_NOT_BUILT."""
    names = "|".join(re.escape(program.name) for program in without)
    return ["-LE", f"^({names})$", "-E", f"^({names})_NOT_BUILT$"] if without else []


def check(without: list[Program], part: Part) -> None:
    """Adds a failure to the sanitizer's `part` for each test that dev leaves to it and that it did
    not run."""
    ran = names_by_program(part)
    for program in without:
        wanted = defined_tests(program)
        if not wanted:
            part.failures.append(f"{program.name}: dev leaves it out, and no test is seen in it")
        part.failures += [
            f"{part.name}: {name} of {program.name} did not run, and dev leaves it out"
            for name in missing(wanted, ran.get(program.name, set()))
        ]


def names_by_program(part: Part) -> dict[str, set[str]]:
    """Which of the tests that `part` ran belong to which program."""
    command = ["ctest", "--test-dir", str(build.build_directory(part.name)), "--show-only=json-v1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, set[str]] = {}
    for test in json.loads(done.stdout)["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        for label in labels[0] if labels and test["name"] in part.times else []:
            found.setdefault(label, set()).add(plain_name(test["name"]))
    return found


def defined_tests(program: Program, root: pathlib.Path = ROOT) -> set[str]:
    """ "Suite.Test" of every test that the program's sources define."""
    found = set()
    for source in program.sources:
        for suite, test in DEFINED.findall((root / source).read_text()):
            if not test.startswith("DISABLED_"):
                found.add(f"{suite}.{test}")
    return found


def missing(wanted: set[str], ran: set[str]) -> list[str]:
    """What is in `wanted` and not in `ran`. A suite whose name is a macro is known by its tests."""
    tests = {name.partition(".")[2] for name in ran}
    return sorted(
        name
        for name in wanted - ran
        if not (name.partition(".")[0].isupper() and name.partition(".")[2] in tests)
    )
