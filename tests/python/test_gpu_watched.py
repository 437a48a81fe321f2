"""Tests on a device, as gpu-check runs them: each is told of when it ends, one that crashes or
hangs has failed, and the others run all the same."""

import shutil
import sys
from pathlib import Path

import pytest

from bench.gpu import device_tests, programs
from bench.gpu.watched_tests import SuiteOfTests, WatchedTests, watch
from support.sections import lines_of, rows_of, section_of

ROOT = Path(__file__).resolve().parents[2]
NEVER_S = 3600.0


PYTHON_TESTS = """
import os, signal
import pytest

def test_a(record_property):
    record_property("distance", 0.5)

@pytest.mark.parametrize("number", [1])
def test_crashes(number):
    os.write(2, b"terminate called after throwing an Error: sorry\\n")
    os.kill(os.getpid(), signal.SIGSEGV)

def test_fails():
    assert 1 == 2, "far off"

@pytest.fixture
def broken():
    raise RuntimeError("no device")

def test_cannot_begin(broken):
    pass

def test_skipped():
    pytest.skip("no partitions")

def test_z():
    pass
"""


def test_python_tests_are_rows_and_a_crash_costs_one(tmp_path, capfd):
    shutil.copy(ROOT / "tests/gpu/conftest.py", tmp_path)
    file = tmp_path / "test_x.py"
    file.write_text(PYTHON_TESTS)
    section = section_of(device="host", cuda=False)
    program = device_tests.program_of(section, file, tmp_path)
    watch(
        [WatchedTests(section, program, NEVER_S, lambda w, r: device_tests.report(section, w, r))]
    )
    rows = rows_of(section)
    holds = {metric: row["holds"] for (case, metric), row in rows.items() if case == "test_x"}
    assert holds == {
        "test_a": True,
        "test_crashes[1]": False,
        "test_fails": False,
        "test_cannot_begin": False,
        "test_z": True,
    }
    assert rows["test_x.test_a", "distance"]["value"] == 0.5
    note = rows["test_x", "test_crashes[1]"]["note"]
    assert "SIGSEGV" in note and "terminate called after throwing an Error: sorry" in note
    assert rows["test_x", "test_fails"]["note"].startswith("AssertionError: far off")
    assert "no device" in rows["test_x", "test_cannot_begin"]["note"]
    assert {"left_out": "test_x: test_skipped: Skipped: no partitions"} in lines_of(section)
    printed = capfd.readouterr().out
    assert "Fatal Python error: Segmentation fault" in printed, "where it crashed"
    assert 'assert 1 == 2, "far off"' in printed, "a failure before the summary is reached"


def test_a_file_that_cannot_be_read_is_one_failure(tmp_path):
    shutil.copy(ROOT / "tests/gpu/conftest.py", tmp_path)
    file = tmp_path / "test_x.py"
    file.write_text("import nothing_of_this_name")
    section = section_of(device="host", cuda=False)
    program = device_tests.program_of(section, file, tmp_path)
    watch([WatchedTests(section, program, NEVER_S, lambda *_: None)])
    note = rows_of(section)["test_x", "ran"]["note"]
    assert note.startswith("ended with 2: ") and "nothing_of_this_name" in note


# A program that prints as googletest does. The tests of argv[1] (a:what,b:what,...) pass, fail,
# crash, hang or are skipped; a filter leaves some out.
GOOGLETEST = """#!PYTHON
import os, signal, sys
tests = dict(word.split(":") for word in "TESTS".split(","))
if "--gtest_list_tests" in sys.argv:
    print("Running main() from here\\nAll/Suite.")
    for test in tests: print(f"  {test}/0  # GetParam() = cuda")
    sys.exit()
done = next((w.partition("=-")[2].split(":") for w in sys.argv if "filter" in w), [])
left = {f"All/Suite.{test}/0": what for test, what in tests.items()}
left = {test: what for test, what in left.items() if test not in done}
broken = False
print(f"[==========] Running {len(left)} tests from 1 test suite.")
for test, what in left.items():
    print(f"[ RUN      ] {test}", flush=True)
    if what == "crash": os.abort()
    while what == "hang": signal.pause()
    broken = broken or what == "fail"
    if broken:
        print("a.cc:3: Failure\\nExpected: 1")
        print(f"[  FAILED  ] {test}, where GetParam() = cuda (2 ms)", flush=True)
    else:
        word = {"pass": "      OK", "skip": " SKIPPED"}[what]
        print(f"[ {word} ] {test} (0 ms)", flush=True)
print(f"[  FAILED  ] {test}, where GetParam() = cuda")
"""


def program_in(folder, tests):
    program = folder / "some_test"
    program.write_text(GOOGLETEST.replace("PYTHON", sys.executable).replace("TESTS", tests))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("tests", "counts", "notes"),
    [
        ("a:pass,b:skip,c:pass", (2, 1, 0), {}),
        # What fails after a failure may do so because of it: it runs again without.
        ("a:pass,b:fail,c:pass,d:pass", (3, 0, 1), {"b": "a.cc:3: Failure Expected: 1"}),
        ("a:fail,b:crash,c:pass", (1, 0, 2), {"b": "its process ended by SIGABRT"}),
        ("a:skip,b:crash", (0, 1, 1), {}),
        ("a:skip", (0, 1, 1), {}),
    ],
)
def test_tests_of_a_program_are_counted_one_by_one(tests, counts, notes, tmp_path, monkeypatch):
    section = section_of()
    monkeypatch.setattr(programs, "find_programs", lambda: [program_in(tmp_path, tests)])
    programs.run(section)
    rows = {metric: row for (_, metric), row in rows_of(section).items()}
    assert tuple(rows[name]["value"] for name in ("passed", "skipped", "failed")) == counts
    assert rows["failed"]["test"] and rows["failed"]["holds"] == (counts[2] == 0)
    for test, note in notes.items():
        row = rows[f"All/Suite.{test}/0"]
        assert row["holds"] is False and note in row["note"]


def test_a_test_that_hangs_is_ended_and_the_others_run(tmp_path):
    section = section_of()
    program = programs.program_of(section, program_in(tmp_path, "a:pass,b:hang,c:pass"), tmp_path)
    found = {}
    tests = WatchedTests(
        section, program, NEVER_S, lambda _, result: found.update({result.test: result})
    )
    while not tests.finished:
        tests.poll()
        if len(found) == 1:  # the next one is the one that hangs: its time is over
            tests._limit_s = 0.0
        elif len(found) > 1:
            tests._limit_s = NEVER_S
    assert {test: result.outcome for test, result in found.items()} == {
        "All/Suite.a/0": "passed",
        "All/Suite.b/0": "failed",
        "All/Suite.c/0": "passed",
    }
    assert "did not end" in found["All/Suite.b/0"].why


def test_tests_that_there_is_no_time_for_are_named(tmp_path):
    section = section_of()
    section.until = 0.0
    program = programs.program_of(section, program_in(tmp_path, "a:hang,b:pass"), tmp_path)
    watch([WatchedTests(section, program, NEVER_S, lambda *_: None)])
    left_out = lines_of(section)[-1]["left_out"]
    assert left_out == "some_test: All/Suite.a/0 and 1 more: there was no time left"


def test_a_program_that_fails_after_its_tests_has_failed(tmp_path):
    section = section_of()
    program = program_in(tmp_path, "a:pass")
    program.write_text(program.read_text() + "sys.exit(9)\n")
    suite = programs.program_of(section, program, tmp_path)
    watch([WatchedTests(section, suite, NEVER_S, lambda *_: None)])
    assert rows_of(section)["some_test", "ran"]["note"].startswith("ended with 9: ")


def test_a_program_that_does_not_start_is_one_failure(tmp_path):
    section = section_of()
    program = SuiteOfTests(
        "x", lambda done: [sys.executable, "-c", "raise SystemExit(3)"], lambda line: None,
        tmp_path, {}, tmp_path / "output",
    )  # fmt: skip
    watch([WatchedTests(section, program, NEVER_S, lambda *_: None)])
    assert rows_of(section)["x", "ran"]["note"] == "ended with 3: it printed nothing"
