"""The bench `gateway` in a small form: all figures are there, and a wrong model stops it."""

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
from bench import gateway
from bench.harness import Options


def test_it_measures_all_that_it_says(monkeypatch):
    for name in ("QUICK_REQUESTS", "QUICK_AT_ONCE"):
        monkeypatch.setattr(gateway, name, 2)
    report = gateway.run(Options(trials=2, quick=True))
    rows = {(row["case"], row["metric"]): row for row in report.rows}
    for case in ("json", "binary", "grpc"):
        for metric in ("p50", "p99"):
            both = sum(rows[case, f"{name}_{metric}_ms"]["value"] for name in ("echo", "direct"))
            over = rows[case, f"{metric}_over_both"]
            whole = rows[case, f"gateway_{metric}_ms"]["value"]
            assert over["value"] == pytest.approx(whole / both)
            assert over["target"] == {"op": "<=", "value": 1.3}
    assert rows["callers", "ratio"]["target"] == {"op": ">=", "value": 0.5}
    assert rows["batch", "ratio"]["target"] == {"op": ">=", "value": 2.0}


def test_an_answer_that_is_none_stops_it(monkeypatch):
    monkeypatch.setattr(gateway, "TOML", gateway.TOML.replace("[-1, 10]", "[-1, 11]"))
    with pytest.raises(RuntimeError, match=r"model\.toml says that output"):
        gateway.run(Options(trials=2, quick=True, only=("json",)))
