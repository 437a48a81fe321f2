"""The bench device_memory: its rows, its reasons, and that it runs on the fake device."""

import pytest

from bench import device_memory, fake_device
from bench.report import Report

FOUND = {
    "beyond_pool_bytes": {"10": 700, "100": 700, "1000": 900},
    "torch_bytes": {"10": 2 << 20, "100": 2 << 20, "1000": 2 << 20},
    "replayed_count": 5,
}


def rows_of(found):
    report = Report("device_memory")
    device_memory.add(report, found)
    return {row["metric"]: row for row in report.rows}


def test_what_grew_between_the_first_and_the_last_count_misses():
    rows = rows_of(FOUND)
    assert rows["beyond_pool_after_100"]["value"] == 700
    assert (rows["growth"]["value"], rows["growth"]["holds"]) == (200, False)
    steady = FOUND | {"beyond_pool_bytes": {"10": 700, "1000": 700}}
    assert rows_of(steady)["growth"]["holds"]


def test_nothing_that_was_replayed_misses():
    assert not rows_of(FOUND | {"replayed_count": 0})["replayed_iterations"]["holds"]


def test_a_probe_that_fails_is_a_row_with_the_reason():
    nowhere = {"LANEWAY_CUDA_PLUGIN": "/nowhere/plugin.so"}
    rows = rows_of(fake_device.probe(device_memory.PROBE, "cuda:0", "2", environment=nowhere))
    assert rows["growth"]["value"] is None and rows["growth"]["note"]


@pytest.mark.embedded_only("opens services of its own")
def test_jobs_come_and_go_on_the_fake():
    rows = rows_of(device_memory.measure((4, 8)))
    assert rows["growth"]["value"] == 0, rows
    assert rows["replayed_iterations"]["holds"]
