"""The bench preemption: how it reads a trace, and a small run through a real service."""

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
