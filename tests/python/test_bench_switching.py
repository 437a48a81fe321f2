"""The bench switching: its bound is that of the best schedule, and what it reports comes from a
real service."""

import pytest
import torch
from torch import nn

from bench import switching
from bench.harness import Calibration
from bench.report import Report


def test_the_bound_is_the_longest_way_through_transfer_and_computation():
    # Two modules of 100 bytes each; the second one begins after half of a second's computation.
    starts = [(0.0, 100), (0.5, 200)]
    assert switching.bound(1.0, starts, 200, 1e9) == pytest.approx(1.0, rel=1e-6)
    assert switching.bound(1.0, starts, 200, 200) == pytest.approx(1.5)  # 0.5 s, then all of it
    assert switching.bound(1.0, starts, 200, 100) == pytest.approx(2.5)  # 2 s, then the second one
    # Bytes that no module uses come before the answer.
    assert switching.bound(1.0, starts, 1000, 200) == pytest.approx(5.0)


def test_modules_begin_in_their_order_with_the_bytes_used_by_then():
    model = nn.Sequential(nn.Linear(8, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    model.append(model[1])
    found = switching._starts(model, (torch.zeros(1, 8),))
    assert [used for _, used in found] == [128, 128, 160, 160]
    assert [share for share, _ in found] == sorted(share for share, _ in found)
    assert all(0 <= share <= 1 for share, _ in found)


def test_a_small_model_is_switched_and_its_answers_compared():
    torch.manual_seed(2)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))  # 4 MiB
    report = Report("switching")
    job = (model, (torch.randn(64, 512),))
    switching.measure("small_1", job, 1.0, 2, Calibration(), report)
    found = {row["metric"]: row["value"] for row in report.rows}
    image_mb = 4 * (512 + 1) * 512 * 4 / 1e6
    link_ms = image_mb / found["rate_MB_per_s"] * 1e3
    assert found["bound_ms"] >= max(found["ready_ms"], link_ms * 0.999)
    assert found["whole_ms"] > found["transfer_ms"]
    assert all(found[name] is not None for name in ("excess", "overlap", "interference"))
