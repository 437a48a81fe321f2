"""The bench residency: what it reports comes from a real service."""

import pytest
import torch
from torch import nn

from bench import residency
from bench.harness import Calibration
from bench.report import Report


@pytest.fixture
def work():
    torch.manual_seed(2)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))  # 4 MiB
    return model.eval(), (torch.randn(64, 512),)


@torch.no_grad()
def test_a_switch_between_resident_models_is_set_in_round_trips(work):
    report = Report("residency")
    residency.measure_resident(work, 3, Calibration(), report)
    found = {row["metric"]: row["value"] for row in report.rows}
    assert found["ring_us"] > 0
    assert found["switch_round_trips"] is not None


@torch.no_grad()
@pytest.mark.parametrize("case", ["prefix_0", "prefix_25", "rule"])
def test_the_link_carries_what_did_not_stay(work, case):
    report = Report("residency")
    residency.measure_prefix(case, work, 3, Calibration(), report)
    found = {row["metric"]: row["value"] for row in report.rows}
    assert 0 <= found["kept_bytes"] < found["image_bytes"]
    if case == "prefix_0":
        assert found["kept_bytes"] == 0
    if case == "prefix_25":
        assert found["kept_of_share"] == pytest.approx(1, abs=0.001)
    assert found["link_of_rest"] > 0.9, "the link is no faster than it was set to"
