"""The pause bench: its arithmetic on gaps that are given, and the eager script that is killed and
started again, for real."""

import pytest

from bench import pause
from bench.report import Report


def rows_of(variant, found):
    report = Report("pause")
    pause.add_rows(report, "mlp", variant, found)
    return {row["metric"]: row for row in report.rows}


def test_a_pause_is_the_longest_gap_less_the_usual_one():
    assert pause.pause_of([1.0, 2.0, 9.0], [2.0, 5.0, 3.0]) == pytest.approx(3.0)
    assert pause.pause_of([2.0], [1.0]) == 0.0


def test_only_a_prepared_standby_has_a_target_and_lost_jobs_are_counted():
    rows = rows_of("prepared", [0.1, None, 0.5])
    assert rows["prepared_p95_ms"]["holds"] is False
    assert rows["prepared_p95_ms"]["note"] == "of 2 kills"
    assert rows["prepared_jobs_lost"]["value"] == 1
    rows = rows_of("none", [0.9])
    assert rows["none_p95_ms"]["target"] is None
    assert rows["none_p50_ms"]["value"] == pytest.approx(900)
    assert rows_of("none", [None])["none_p50_ms"]["value"] is None


def test_the_eager_script_goes_on_from_its_file():
    """A pause has at least the start of Python and torch in it."""
    found = pause.eager_pauses("mlp", 2)
    assert len(found) == 2
    assert all(seconds > 0.1 for seconds in found)
