"""What ./dev test counts: times of tests that add up to the time of their part; slow tests without
a long form; what the dev preset leaves to the address sanitizer, and that it really ran there."""

import json
import threading
from pathlib import Path

import pytest

import build
import left_out
import python_tests
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


TABLES = {
    "dev": {
        "link_table.txt": """laneway_base;STATIC_LIBRARY;base;Threads::Threads
laneway_adaptor;STATIC_LIBRARY;adaptor;laneway_base;torch::cpu
plain_test;EXECUTABLE;tests/base;laneway_base;GTest::gtest
torch_test;EXECUTABLE;tests/adaptor;laneway_adaptor;GTest::gtest
worker;EXECUTABLE;service/worker;laneway_adaptor
starts_test;EXECUTABLE;tests/service;laneway_base
worlds_test;EXECUTABLE;tests/simulation;laneway_base
dev_test;EXECUTABLE;tests/base;laneway_base
other_test;EXECUTABLE;tests/base;laneway_base
""",
        "test_table.txt": """plain_test;tests/base;unit,threads;;tests/base/plain_test.cc
torch_test;tests/adaptor;unit;;tests/adaptor/torch_test.cc
worlds_test;tests/simulation;simulation;;tests/simulation/worlds_test.cc
starts_test;tests/service;unit;worker;tests/service/starts_test.cc
dev_test;tests/base;unit;;tests/base/dev_test.cc
other_test;tests/base;unit;;tests/base/other_test.cc;tests/base/more_test.cc
""",
    },
    "asan": {
        "test_table.txt": """plain_test;tests/base;unit,threads;;tests/base/plain_test.cc
torch_test;tests/adaptor;unit;;tests/adaptor/torch_test.cc
worlds_test;tests/simulation;simulation;;tests/simulation/worlds_test.cc
starts_test;tests/service;unit;worker;tests/service/starts_test.cc
other_test;tests/base;unit;;tests/base/other_test.cc
""",
    },
}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for preset, files in TABLES.items():
        (tmp_path / preset).mkdir()
        for name, text in files.items():
            (tmp_path / preset / name).write_text(text)
    monkeypatch.setattr(left_out.build, "build_directory", lambda preset: tmp_path / preset)
    return tmp_path


def test_dev_leaves_out_what_the_sanitizer_runs_of_the_same_sources(tables: Path) -> None:
    without = left_out.left_out()
    # Not: what links torch or starts what does, what is worth its name when it is optimised, what
    # the sanitizer lacks, what has other sources there.
    assert [program.name for program in without] == ["plain_test"]
    targets = left_out.other_targets(without)
    assert "plain_test" not in targets
    assert {"laneway_base", "torch_test", "worlds_test", "dev_test", "other_test"} <= set(targets)
    label, labels, name, names = left_out.ctest_arguments(without)
    assert (label, labels) == ("-LE", "^(plain_test)$")
    assert (name, names) == ("-E", "^(plain_test)_NOT_BUILT$")
    assert left_out.ctest_arguments([]) == []


def test_a_test_that_ran_nowhere_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "tests/base/plain_test.cc"
    source.parent.mkdir(parents=True)
    source.write_text(
        "TEST(Plain, Runs) {}\nTEST_P(Plain, Each) {}\nTEST(Plain, DISABLED_Later) {}\n"
        "TEST_F(LANEWAY_SUITE, Named) {}\nTEST(Plain, Lost) {}\n"
    )
    program = left_out.Program("plain_test", frozenset({"unit"}), (), ("tests/base/plain_test.cc",))
    wanted = left_out.defined_tests(program, tmp_path)
    assert wanted == {"Plain.Runs", "Plain.Each", "LANEWAY_SUITE.Named", "Plain.Lost"}
    monkeypatch.setattr(left_out, "defined_tests", lambda _: wanted)
    ran = {"Plain.Runs", "Plain.Each", "Fake.Named"}
    monkeypatch.setattr(left_out, "names_by_program", lambda _: {"plain_test": ran})
    part = Part("asan")
    left_out.check([program], part)
    assert part.failures == ["asan: Plain.Lost of plain_test did not run, and dev leaves it out"]


def test_the_runner_knows_the_tests_of_a_real_preset() -> None:
    """What the build under test wrote: every program of tests has sources that are there."""
    programs = left_out.programs("dev")
    assert {"base_test", "worker_test", "simulation_test"} <= set(programs)
    for program in programs.values():
        assert program.sources, program.name
        assert all((left_out.ROOT / source).is_file() for source in program.sources), program.name
        assert left_out.defined_tests(program), program.name


@pytest.fixture
def few_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of tests, each a pytest process's."""
    files = {
        "test_a.py": "def test_one(): pass\ndef test_two(): assert False, 'a reason'\n",
        "test_b.py": "import pytest\ndef test_three(): pytest.skip()\ndef test_four(): pass\n",
        "test_c.py": "import os\ndef test_five(): os._exit(3)\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(python_tests, "FOLDER", tmp_path)
    monkeypatch.setattr(python_tests, "CHUNK", 1)
    options = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    monkeypatch.setitem(python_tests.PYTHON_PARTS, "python", (options, (*files,)))
    monkeypatch.setattr(build, "build_directory", lambda preset: tmp_path)
    return tmp_path


def test_what_several_pytest_processes_say_is_one_part(
    few_tests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (part,) = python_tests.run_python_tests([], ("python",))
    assert (part.passed, part.skipped) == (2, 1)
    assert sorted(part.failures) == ["pytest python-3 exited with 3", "python: test_a.test_two"]
    assert set(part.times) == {f"test_a.test_{n}" for n in ("one", "two")} | {
        f"test_b.test_{n}" for n in ("three", "four")
    }
    assert "a reason" in capsys.readouterr().out


def test_processes_that_arguments_leave_no_test_have_not_failed(few_tests: Path) -> None:
    (part,) = python_tests.run_python_tests(["-k", "four"], ("python",))
    assert (part.passed, part.failures) == (1, [])


def test_one_process_fewer_runs_until_what_runs_beside_has_ended(
    few_tests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, second = threading.Event(), threading.Event()
    both = threading.Barrier(2, timeout=60)

    def run(chunk: python_tests.Chunk, *_: object) -> None:
        if chunk.number == 1:
            assert not second.wait(1), "the second began beside the first"
            beside.set()
        else:
            second.set()
            both.wait()

    monkeypatch.setattr(python_tests, "AT_A_TIME", 2)
    monkeypatch.setattr(python_tests, "run_chunk", run)
    python_tests.run_python_tests([], ("python",), wait_beside=beside.wait)


def test_every_file_is_run_by_one_process_of_its_part() -> None:
    for name, (_, files) in python_tests.PYTHON_PARTS.items():
        chunks = python_tests.chunks_of(Part(name))
        assert [file for chunk in chunks for file in chunk.files] == list(files)
        assert len({chunk.name for chunk in chunks}) == len(chunks)
    folder = Path(__file__).parent
    assert set(python_tests.PYTHON_PARTS["python"][1]) == {
        p.name for p in folder.rglob("test_*.py")
    }
