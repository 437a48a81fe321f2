"""The format of bench results, and the command line of the benches."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from bench import run
from bench.report import ROOT, Report, at_least, at_most


def example():
    report = Report("example")
    report.add("a", "speed", 1.25, "ratio", at_least(1.2), samples=[1.2, 1.3], median=1.3)
    report.add("a", "cost", 0.75, "ratio", at_most(0.5))
    report.add("b", "time_us", 12.5, "us")
    report.add("b", "speed", None, "ratio", at_least(2), note="it did not build")
    return report


def test_the_document_has_the_fields_of_the_contract(tmp_path):
    path = example().write(tmp_path / "new" / "folder")
    assert path.name == "example.json"
    document = json.loads(path.read_text())
    assert document.keys() >= {"bench", "commit", "date", "machine", "rows", "samples"}
    for row in document["rows"]:
        assert row.keys() >= {"case", "metric", "unit", "value", "target", "holds"}
    assert document["samples"] == {"a/speed": [1.2, 1.3]}
    assert document["rows"][0]["target"] == {"op": ">=", "value": 1.2}
    assert document["rows"][0]["median"] == 1.3


def test_a_target_holds_or_not_and_what_is_unknown_is_null():
    rows = example().rows
    assert [row["holds"] for row in rows] == [True, False, None, None]
    assert rows[3]["value"] is None and rows[3]["note"] == "it did not build"
    assert [row["metric"] for row in example().missed()] == ["cost", "speed"]


def test_a_figure_without_value_must_say_why():
    with pytest.raises(ValueError, match="no value"):
        Report("x").add("a", "speed", None, "ratio")


def test_a_figure_that_is_no_number_is_not_written(tmp_path):
    """NaN is no JSON; better no file than one that others cannot read."""
    report = Report("x")
    report.add("a", "speed", float("nan"), "ratio")
    with pytest.raises(ValueError):
        report.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_machine_is_described_without_host_names_and_paths():
    text = json.dumps(example().document())
    assert platform.node() not in text or len(platform.node()) < 4
    assert str(ROOT) not in text and os.path.expanduser("~") not in text
    machine = example().document()["machine"]
    assert machine["cores"] >= 1 and machine["memory_bytes"] > 2**20 and machine["torch"]


def test_the_table_shows_every_row_with_its_verdict():
    lines = example().table().splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["case", "metric", "value", "target", "holds"]
    assert lines[1].split() == ["a", "speed", "1.25", ">=", "1.2", "yes"]
    assert lines[2].split()[-1] == "NO"
    assert "12.5 us" in lines[3]
    assert "it did not build" in lines[4]


def command(*arguments):
    return subprocess.run(
        [sys.executable, str(Path(run.__file__)), *arguments], capture_output=True, text=True
    )


def test_help_and_list_name_every_bench():
    for arguments in (["--help"], ["--list"], []):
        done = command(*arguments)
        assert done.returncode == 0
        assert all(name in done.stdout for name in run.BENCHES)


def test_wrong_usage_exits_2_and_says_what_there_is():
    for arguments, told in (
        (["nonsense"], "there are overhead"),
        (["overhead", "--only", "nonsense"], "no case 'nonsense'"),
        (["overhead", "--trials", "0"], "at least 1"),
        (["overhead", "--cores", "x"], "--cores"),
        (["overhead", "--torch", "2.99"], "--torch 2.99: this Python has 2."),
    ):
        done = command(*arguments)
        assert done.returncode == 2, done.stderr
        assert told in done.stderr
