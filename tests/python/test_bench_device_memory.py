"""The bench device_memory: its reasons, and that it runs on the fake device."""

import pytest

from bench import device_memory, fake_device
from bench.report import Report


def rows_of(found):
    report = Report("device_memory")
    device_memory.add(report, found)
    return {row["metric"]: row for row in report.rows}


def test_a_probe_that_fails_is_a_row_with_the_reason():
    nowhere = {"LANEWAY_CUDA_PLUGIN": "/nowhere/plugin.so"}
    rows = rows_of(fake_device.probe(device_memory.PROBE, "cuda:0", "2", environment=nowhere))
    assert rows["growth"]["value"] is None and rows["growth"]["note"]


@pytest.mark.embedded_only("opens services of its own")
def test_jobs_come_and_go_on_the_fake():
    rows = rows_of(device_memory.measure((4, 8)))
    assert rows["growth"]["value"] == 0, rows
    assert rows["replayed_iterations"]["holds"]
