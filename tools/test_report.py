"""What comes out of a part of the test run: how many passed, what failed, and what each test cost.
Used by run_tests.py. Standard library only.
"""

import dataclasses
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED_ON_PURPOSE = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE", "Disabled")
FAILURE_LINES = 60
SLOWEST = 20
# What a C++ test of the dev preset may take before it should have a shorter and a long form.
LONG_S = 20.0
LONG_FORM = "tests/support/long_form.h"


@dataclasses.dataclass
class Part:
    """What came out of one part of the run."""

    name: str
    passed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0  # with building
    built: bool = True
    # By test: its seconds; how many ran at a time, and how long all of them took together.
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    at_a_time: int = 1
    tests_seconds: float = 0.0

    def line(self) -> str:
        text = f"{self.name:<8} {self.passed:>5} passed {len(self.failures):>4} failed"
        return f"{text} {self.skipped:>4} skipped  {self.seconds:6.1f} s"

    @property
    def known(self) -> float:
        """The share of the tests' time that single tests account for: near 1 unless something
        around them is slow (starting pytest, waiting for one last test)."""
        whole = self.tests_seconds * self.at_a_time
        return sum(self.times.values()) / whole if whole else 0.0


def read_junit(part: Part, report: pathlib.Path, show: bool = True) -> None:
    for case in ElementTree.parse(report).iter("testcase"):
        name, group = case.get("name", "?"), case.get("classname", "")
        if group and group != name:
            name = f"{group}.{name}"
        skipped = case.find("skipped")
        failed = case.find("failure") is not None or case.find("error") is not None
        if case.get("status") == "disabled":
            part.skipped += 1
            continue
        if skipped is not None and not failed:
            reason = skipped.get("message", "")
            # ctest also calls "skipped" what it could not start.
            failed = report.name == "ctest.xml" and not reason.startswith(SKIPPED_ON_PURPOSE)
            part.skipped += not failed
        elif not failed:
            part.passed += 1
        if failed:
            part.failures.append(f"{part.name}: {name}")
            if show:
                show_failure(name, case)
        # A name that stands twice (an error after the test has passed) is one test.
        part.times[name] = part.times.get(name, 0.0) + float(case.get("time") or 0.0)


def show_failure(name: str, case: ElementTree.Element) -> None:
    print(f"---- {name}")
    for line in (case.findtext("system-out") or "").splitlines()[-FAILURE_LINES:]:
        print(f"  {line}")


def slowest(part: Part) -> list[str]:
    """The part's slowest tests as lines, the slowest first."""
    if not part.times:
        return []
    whole = f"{len(part.times)} tests took {sum(part.times.values()):.1f} s"
    lines = [
        f"dev: {part.name}: {whole}, {part.at_a_time} at a time in {part.tests_seconds:.1f} s "
        f"({part.known:.0%} of it); the slowest:"
    ]
    ordered = sorted(part.times.items(), key=lambda item: (-item[1], item[0]))
    return lines + [f"  {seconds:7.1f} s  {name}" for name, seconds in ordered[:SLOWEST]]


def without_long_form(part: Part, root: pathlib.Path = ROOT) -> list[str]:
    """C++ tests of the part above LONG_S whose source doesn't ask for the long form: each should do
    less by default. Told, not failed: on a machine with other work every test is slow."""
    slow = [name for name, seconds in part.times.items() if seconds > LONG_S]
    sources = [path.read_text() for path in (root / "tests").rglob("*.cc")] if slow else []
    found = []
    for name in sorted(slow):
        suite, _, test = plain_name(name).partition(".")
        defined = re.compile(rf"\b(?:TYPED_)?TEST(?:_[FP])?\(\s*\w+,\s*{re.escape(test)}\s*\)")
        own = [text for text in sources if defined.search(text) and suite in text]
        if own and not any(LONG_FORM in text for text in own):
            found.append(f"{name} ({part.times[name]:.1f} s)")
    return found


def plain_name(name: str) -> str:
    """ "Suite.Test" of a GoogleTest test, without the names of instances and parameters."""
    suite, _, test = name.partition(".")
    parts = suite.split("/")
    # Instance/Suite of a test with parameters, Suite/0 of a typed one.
    typed = len(parts) > 1 and parts[-1].isdecimal()
    return f"{parts[0] if typed else parts[-1]}.{test.split('/')[0]}"


def write_times(parts: list[Part], path: pathlib.Path) -> None:
    """All times of a run, by part."""
    told = {
        part.name: {
            "seconds": round(part.seconds, 3),
            "tests_seconds": round(part.tests_seconds, 3),
            "at_a_time": part.at_a_time,
            "known": round(part.known, 4),
            "times": {name: round(seconds, 3) for name, seconds in sorted(part.times.items())},
        }
        for part in parts
        if part.times
    }
    if told:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told, indent=1) + "\n")
