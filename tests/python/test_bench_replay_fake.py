"""The bench replay_fake: what it counts, and that every model of the benches is replayed on the
fake device."""

import pytest

from bench import models, replay_fake
from bench.replay_fake_probe import host_calls
from bench.report import Report


def rows_of(found, form="fused"):
    report = Report("replay_fake")
    replay_fake.add(report, "mlp", form, found)
    return {row["metric"]: row for row in report.rows}


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
