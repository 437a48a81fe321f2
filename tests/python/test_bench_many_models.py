"""The bench `many_models` in a small form: every figure is there, nothing went wrong, and an answer
with other bits is seen."""

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
from bench import many_models
from bench.harness import Options
from bench.open_loop import poisson, zipf


def test_shares_are_zipfs_and_arrivals_have_them():
    shares = zipf(4)
    assert sum(shares) == pytest.approx(1) and shares[0] == pytest.approx(4 * shares[3])
    arrivals = poisson(1000.0, 20.0, 4, 5, shares)
    for model, share in enumerate(shares):
        count = sum(arrival.model == model for arrival in arrivals)
        assert count == pytest.approx(share * len(arrivals), rel=0.1)


def test_it_measures_all_that_it_says(monkeypatch):
    monkeypatch.setattr(many_models, "QUICK_ALONE", 2)
    monkeypatch.setattr(many_models, "QUICK_WINDOW_S", 0.5)
    rows = {row["metric"]: row for row in many_models.run(Options(quick=True)).rows}
    assert rows["models"]["value"] == 4
    assert rows["errors"]["value"] == rows["wrong_answers"]["value"] == 0
    over = rows["p99_over_one"]
    assert over["target"] == {"op": "<=", "value": 1.3}
    assert over["value"] == pytest.approx(rows["p99_ms"]["value"] / rows["one_p99_ms"]["value"])
    assert rows["training"]["value"] > 0 and rows["gateway_pss"]["value"] > 0


def test_other_bits_are_seen(monkeypatch):
    served = many_models._served

    def spoilt(*given):
        one = served(*given)
        return many_models.Served(one.name, one.inputs, one.expected[:-1] + b"\x55")

    monkeypatch.setattr(many_models, "_served", spoilt)
    monkeypatch.setattr(many_models, "QUICK_ALONE", 1)
    monkeypatch.setattr(many_models, "QUICK_WINDOW_S", 0.2)
    rows = {row["metric"]: row for row in many_models.run(Options(quick=True)).rows}
    assert rows["wrong_answers"]["value"] >= 4
