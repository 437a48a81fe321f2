"""The bench preemption: what it makes of a trace, and a small run through a real service."""

import pytest
import torch

from bench import preemption
from bench.harness import Calibration
from bench.report import Report
from support.daemon import Lanewayd

TRACE = """\
+1.000000100 iteration of job 2 'urgent' in lane 2, graph 0: completed, 0.100 ms
+1.000000350 heard TurnPaused turn 3
+1.000000500 iteration of job 1 'training' in lane 1, graph 0: abandoned, 2.000 ms and 1.000 ms paused
-0.000000100 iteration of job 2 'urgent' in lane 2, graph 0: completed, 0.100 ms
"""  # noqa: E501


def test_a_trace_is_read_on_the_machines_clock():
    found = preemption.parse(TRACE, 10_000_000_000)
    assert found == {
        "urgent": [11_000_000_100, 9_999_999_900],
        "held": [11_000_000_350],
        "abandoned": [11_000_000_500],
    }


def test_what_is_reported():
    report = Report("preemption")
    asked = [("warm_up", 0), ("idle", 1_000), ("interrupt", 10_000), ("interrupt", 20_000)]
    began = {"urgent": [500, 2_000, 14_000, 22_000], "held": [15_000], "abandoned": []}
    took = {
        "idle_python": [1.0, 1.0], "interrupt_python": [2.0, 4.0],
        "idle_ring": [1e-6], "interrupt_ring": [2e-6, 1e-6, 2e-6],
        "idle_c": [2e-6], "interrupt_c": [6e-6, 8e-6, 8e-6],
    }  # fmt: skip
    preemption.report_interrupt(asked, took, began, report)
    found = {row["metric"]: row for row in report.rows}
    assert found["round_trip_interrupt_us"]["value"] == pytest.approx(2.0)
    assert found["first_operator_python_idle"]["value"] == pytest.approx(1.0)
    first = report.samples["interrupt/first_operator_python_interrupt"]
    assert first == pytest.approx([2.0, 1.0])
    assert found["answer_c_idle"]["value"] == pytest.approx(2.0)
    assert report.samples["interrupt/answer_c_interrupt"] == pytest.approx([3.0, 4.0, 4.0])
    assert found["answer_c_interrupt"]["holds"] is False
    assert found["left_of_operator_us"]["value"] == pytest.approx(1.0)
    assert found["held"]["value"] == pytest.approx(0.5)
    assert found["run_twice"]["holds"] is True
    with pytest.raises(RuntimeError, match="4 requests, 3 iterations"):
        preemption.report_interrupt(asked, took, began | {"urgent": [1, 2, 3]}, report)


class Trips:
    """Round trips that take no time."""

    def trial(self, count: int) -> list[int]:
        return [1_000] * count


def test_requests_and_iterations_of_a_real_service_are_paired(tmp_path):
    trace = tmp_path / "trace"
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 10))
    batch = torch.randn(256, 512), torch.randint(0, 10, (256,))
    with Lanewayd("--trace", str(trace)) as running, running.connect() as service:
        asked, took = preemption.measure(
            service, (model, batch), 2, Calibration(), {"c": Trips(), "ring": Trips()}
        )
    began = preemption.beginnings(trace)
    report = Report("preemption")
    preemption.report_interrupt(asked, took, began, report)
    for (_, request), start in zip(asked, began["urgent"]):
        assert start > request
    assert {len(samples) for samples in took.values()} == {2}
