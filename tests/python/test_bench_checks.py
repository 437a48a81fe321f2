"""The bench checks: that it counts what a call compares, and that a model which fails is a row
without a value. How long anything takes is not asserted."""

import pytest

from bench import checks, checks_probe
from bench.harness import Options


def test_what_a_call_compares_is_counted():
    report = checks.run(Options(quick=True, only=("mlp",)))
    values = {row["metric"]: row["value"] for row in report.rows if row["case"] == "mlp"}
    assert values["guards"] > 1 and values["reads_us"] > 0 < values["model_us"]


def test_a_model_that_fails_is_a_row_with_the_reason(monkeypatch):
    def failing(program, arguments, options):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(checks, "found_by", failing)
    report = checks.run(Options(only=("mlp",)))
    row = next(row for row in report.rows if row["case"] == "mlp")
    assert row["value"] is None and "no such thing" in row["note"]


def test_a_check_that_says_no_is_not_timed():
    """It would have found its answer early."""
    with pytest.raises(RuntimeError, match="another form"):
        checks_probe._shortest_us(lambda: False)
