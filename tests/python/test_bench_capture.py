"""The capture bench: that a sample is a fresh process whose parts add up to its whole, and that a
model which fails is a row without a value. How long anything takes is not asserted."""

import pytest

from bench import capture, capture_probe
from bench.harness import Options


def test_the_parts_of_a_fresh_process_add_up():
    """Every clock was passed: capture, encoding, admission, placing, the first iteration."""
    found = capture.probe("mlp", Options())
    total, plan, cpu = (found.pop(f"{name}_s") for name in ("total", "plan", "cpu"))
    assert set(found) == {f"{part}_s" for part in (*capture_probe.PARTS, "import", "open", "rest")}
    assert sum(found.values()) == pytest.approx(total)
    assert min(found.values()) >= 0 and found["capture_s"] > 0 and plan >= 0 < cpu


def test_a_model_that_fails_is_a_row_with_the_reason(monkeypatch):
    def failing(model, options):
        if model == "cnn":
            raise RuntimeError("no such thing")
        return {"total_s": 1.0, "capture_s": 0.5}

    monkeypatch.setattr(capture, "probe", failing)
    report = capture.run(Options(trials=2, only=("mlp", "cnn")))
    values = {(row["case"], row["metric"]): row for row in report.rows}
    assert (
        values["mlp", "first_result_s"]["value"] == 1 and values["mlp", "first_result_s"]["holds"]
    )
    assert values["mlp", "capture_s"]["value"] == 0.5
    assert values["cnn", "first_result_s"]["value"] is None
    assert "no such thing" in values["cnn", "first_result_s"]["note"]
    assert report.samples["mlp/first_result_s"] == [1, 1]


def test_of_equal_jobs_one_is_probed_and_the_others_first_calls_are_told(monkeypatch):
    monkeypatch.setattr(capture, "EQUAL_MODEL", "mlp")
    report = capture.run(Options(quick=True, only=(capture.EQUAL,)))
    values = {row["metric"]: row for row in report.rows if row["case"] == capture.EQUAL}
    assert values["probes"]["value"] == 1 and values["probes"]["holds"]
    assert all(values[f"{kind}_over_first"]["value"] > 0 for kind in ("like", "captured"))
    assert len(report.samples["equal_jobs/like_s"]) == capture.QUICK_EQUAL_JOBS - 1


def test_a_clock_around_what_is_not_there_is_an_error():
    """Else a part that was renamed would read as taking no time."""
    import laneway.jobs.step

    assert laneway.jobs.step is not None
    with pytest.raises(AttributeError):
        capture_probe._timed("jobs.step", "no_such_function")
