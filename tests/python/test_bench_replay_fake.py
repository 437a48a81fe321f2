"""The bench replay_fake: its rows, its reasons, and that every model of the benches is replayed on
the fake device."""

import pytest

from bench import models, replay_fake
from bench.replay_fake_probe import host_calls
from bench.report import Report

FOUND = {
    "nodes": 40,
    "replayed_nodes": 36,
    "replayed_count": 3,
    "refused": None,
    "before": {"calls": 300, "launches": 30, "work": 33},
    "after": {"calls": 20, "launches": 4, "work": 33},
}


def rows_of(found, form="fused"):
    report = Report("replay_fake")
    replay_fake.add(report, "mlp", form, found)
    return {row["metric"]: row for row in report.rows}


def test_a_share_below_its_target_misses_with_fused_optimizers_alone():
    rows = rows_of(FOUND)
    assert (rows["replayed_share"]["value"], rows["replayed_share"]["holds"]) == (0.9, True)
    assert (rows["host_calls_before"]["value"], rows["host_calls_after"]["value"]) == (300, 20)
    less = FOUND | {"replayed_nodes": 35}
    assert not rows_of(less)["replayed_share"]["holds"]
    assert rows_of(less, "default")["replayed_share"]["holds"] is None


def test_a_model_that_is_not_replayed_misses_and_says_why():
    rows = rows_of(
        FOUND | {"replayed_count": 0, "replayed_nodes": 0, "refused": "node 3 (aten::mm): no"},
        "default",
    )
    assert not rows["replayed_iterations"]["holds"]
    assert "node 3 (aten::mm): no" in rows["replayed_share"]["note"]
    assert rows_of({"error": "no fake"})["replayed_share"]["note"] == "no fake"


def test_a_call_that_the_runtime_hands_on_is_one():
    lines = ["call cudaGraphLaunch", "call cuGraphLaunch", "run kernel", "call cuMemcpyHtoDAsync"]
    assert host_calls(lines) == 2
    assert host_calls(["call cuGraphLaunch", "call cudaGraphLaunch"]) == 2


@pytest.mark.embedded_only("opens services of its own")
@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_is_replayed_on_the_fake(name):
    """vgg11 takes the longest: its state is copied as it is on a GPU."""
    for form in replay_fake.FORMS if name != "vgg11" else ("fused",):
        rows = rows_of(replay_fake.measure(name, form), form)
        found = str(rows)  # what is no string pytest cuts short
        assert rows["replayed_iterations"]["value"] == 3, found
        assert rows["replayed_share"]["value"] == 1 or form == "default", found
        assert rows["host_calls_after"]["value"] < 0.7 * rows["host_calls_before"]["value"], found
