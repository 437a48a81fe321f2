"""The metrics and statistics of `laneway serve`: figures are those of what was answered, and
promtool finds nothing wrong with them."""

import re
import types
from pathlib import Path

import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families

from laneway.serve.counts import BOUNDS_NS, Counts, Duration
from laneway.serve.metrics import Metrics
from support.daemon import Lanewayd, wait_until
from support.judges import needs_promtool, promtool
from support.serving import Serve, row, write_model


def model(name, pending=0, version="1"):
    facts = types.SimpleNamespace(name=name, version=version)
    return types.SimpleNamespace(facts=facts, counts=Counts(), pending=pending)


def samples(text):
    families = text_string_to_metric_families(text.decode())
    found = {}
    for sample in (one for family in families for one in family.samples):
        key = (sample.name, *(v for k, v in sample.labels.items() if k not in ("model", "version")))
        found[(sample.labels.get("model"), *key)] = sample.value
    return found


def busy():
    """A model that has answered, failed and run, with known times."""
    one = model('a"\n', pending=3)
    for ns in (100_000, 250_000, 250_001, 400_000_000_000):
        one.counts.success.add(ns)
    one.counts.fail.add(5)
    one.counts.ran(8, 1000, 1)
    one.counts.ran(3, 3000, 2)
    one.counts.ran(8, 500, 3)
    return one


def test_a_duration_is_in_the_first_part_that_bounds_it():
    made = Duration()
    for ns in (0, BOUNDS_NS[0], BOUNDS_NS[0] + 1, BOUNDS_NS[-1], BOUNDS_NS[-1] + 1):
        made.add(ns)
    assert made.parts[:2] == [2, 1] and made.parts[-2:] == [1, 1] and sum(made.parts) == made.count


def test_figures_are_those_of_the_counts():
    one = busy()
    found = samples(Metrics([one, model("b")], True).text())
    name = one.facts.name
    assert found[None, "laneway_up"] == 1
    requests = "laneway_inference_requests_total"
    outcomes = ("success", "fail", "cancel", "reject")
    assert [found[name, requests, outcome] for outcome in outcomes] == [4, 1, 0, 0]
    assert found[name, "laneway_inference_batched_total"] == 19
    assert found[name, "laneway_inference_executions_total"] == 3
    assert found[name, "laneway_inference_pending_requests"] == 3
    request = "laneway_inference_request_duration_seconds"
    assert found[name, f"{request}_bucket", "0.00025"] == 2
    assert found[name, f"{request}_bucket", "0.0005"] == 3
    assert found[name, f"{request}_bucket", "300"] == 3
    assert found[name, f"{request}_bucket", "+Inf"] == found[name, f"{request}_count"] == 4
    assert found[name, f"{request}_sum"] == pytest.approx(400.000600001)
    assert found["b", requests, "success"] == 0 and ("b", f"{request}_count") not in found


def test_statistics_tell_each_size_of_a_batch():
    told = busy().counts.told("a", "1")
    assert (told["inference_count"], told["execution_count"], told["last_inference"]) == (19, 3, 3)
    assert told["batch_stats"] == [
        {"batch_size": 3, "compute_infer": {"count": 1, "ns": 3000}},
        {"batch_size": 8, "compute_infer": {"count": 2, "ns": 1500}},
    ]


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics():
    done = promtool("check", "metrics", given=Metrics([busy(), model("b")], False).text())
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_alerts_use_names_that_are_there():
    known = {key[1] for key in samples(Metrics([busy()], True).text())}
    text = (Path(__file__).resolve().parents[2] / "docs/monitoring/alerts.yml").read_text()
    used = set(re.findall(r"\blaneway_inference_\w+", text))
    assert used and used <= known


def test_the_gateway_tells_them(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Lanewayd() as daemon, Serve(folder, daemon.address) as serve:
        wait_until(lambda: serve.get("/v2/health/ready").code == 200, "the service")
        for _ in range(3):
            assert serve.infer("linear", [row(torch.zeros(2, 8))]).code == 200
        assert serve.infer("linear", [row(torch.zeros(2, 8))], outputs=[]).code == 400
        reply = serve.get("/metrics")
        assert reply.code == 200 and reply.headers["content-type"].startswith("text/plain")
        found = samples(reply.body)
        assert found[None, "laneway_up"] == 1
        assert found["linear", "laneway_inference_requests_total", "success"] == 3
        assert found["linear", "laneway_inference_executions_total"] == 3
        assert found["linear", "laneway_inference_load_duration_seconds_count"] == 1
        (stats,) = serve.get("/v2/models/linear/stats").json()["model_stats"]
        (size,) = stats["batch_stats"]
        assert size["batch_size"] == 1 and size["compute_infer"]["count"] == 3
