"""What ./dev test counts: times of tests that add up to the time of their part; slow tests without
a long form."""

import json
from pathlib import Path

import pytest

import test_report
from test_report import Part

CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="6" failures="1" disabled="1" skipped="2">
 <testcase name="Ledger.Adds" classname="Ledger.Adds" time="3.25" status="run"/>
 <testcase name="Ledger.Fails" classname="Ledger.Fails" time="1.5" status="fail">
  <failure message="Failed"/><system-out>why</system-out></testcase>
 <testcase name="Ledger.NoDevice" classname="Ledger.NoDevice" time="0.25" status="notrun">
  <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
 <testcase name="x_NOT_BUILT" classname="x_NOT_BUILT" time="0" status="notrun">
  <skipped message="Unable to find executable"/></testcase>
 <testcase name="Ledger.Off" classname="Ledger.Off" time="0" status="disabled">
  <skipped message="Disabled"/></testcase>
 <testcase name="All/Ledger.Each/0" classname="All/Ledger.Each/0" time="14.6" status="run"/>
</testsuite>
"""


def read(tmp_path: Path, text: str, name: str = "ctest.xml") -> Part:
    part = Part("dev", at_a_time=2, tests_seconds=10.0)
    (tmp_path / name).write_text(text)
    test_report.read_junit(part, tmp_path / name)
    return part


def test_times_add_up_to_the_time_of_the_part(tmp_path: Path) -> None:
    part = read(tmp_path, CTEST)
    # Two at a time for 10 s; 3.25 + 1.5 + 0.25 + 14.6 s of it belong to a test.
    assert sum(part.times.values()) == pytest.approx(19.6)
    assert part.known == pytest.approx(0.98)
    assert (part.passed, part.skipped) == (2, 2)
    assert part.failures == ["dev: Ledger.Fails", "dev: x_NOT_BUILT"]


def test_a_name_that_stands_twice_keeps_both_times(tmp_path: Path) -> None:
    case = '<testcase classname="tests.test_a" name="test_b" time="{}">{}</testcase>'
    error = case.format(0.5, '<error message="teardown"/>')
    part = read(tmp_path, f"<testsuite>{case.format(2.0, '')}{error}</testsuite>", "pytest.xml")
    assert part.times == {"tests.test_a.test_b": 2.5}
    assert part.failures == ["dev: tests.test_a.test_b"]


def test_the_slowest_come_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    part = read(tmp_path, CTEST)
    part.times |= {f"Many.T{number}": 0.001 * number for number in range(40)}
    lines = test_report.slowest(part)
    assert len(lines) == 1 + test_report.SLOWEST
    assert lines[1].split() == ["14.6", "s", "All/Ledger.Each/0"]
    assert lines[2].split() == ["3.2", "s", "Ledger.Adds"]
    assert test_report.slowest(Part("tidy")) == []


def test_all_times_of_all_parts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "build/dev/times.json"
    part = read(tmp_path, CTEST)
    test_report.write_times([part, Part("unseen")], path)
    kept = json.loads(path.read_text())
    assert list(kept) == ["dev"]
    assert kept["dev"]["times"] == part.times
    assert kept["dev"]["known"] == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Ledger.Adds", "Ledger.Adds"),
        ("All/Ledger.Each/0", "Ledger.Each"),
        ("All/Ledger.Each/two.and_a_half", "Ledger.Each"),
        ("Ledger/1.Typed", "Ledger.Typed"),
        ("tidy.headers", "tidy.headers"),
    ],
)
def test_names_without_instances_and_parameters(name: str, plain: str) -> None:
    assert test_report.plain_name(name) == plain


def test_slow_tests_that_ask_for_no_long_form_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "tests/a"
    folder.mkdir(parents=True)
    (folder / "a_test.cc").write_text("TEST(Slow, Short) {}\nTEST_P(Slow, Each) {}\n")
    (folder / "b_test.cc").write_text(
        f'#include "{test_report.LONG_FORM}"\nTEST_F(Slow, HasALongForm) {{}}\n'
    )
    times = {"Slow.Short": 19.0, "All/Slow.Each/3": 21.0, "Slow.HasALongForm": 300.0}
    part = Part("dev", times=times | {"tidy.headers": 40.0})
    assert test_report.without_long_form(part, tmp_path) == ["All/Slow.Each/3 (21.0 s)"]
