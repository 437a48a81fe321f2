"""The bench exchange, with a round or two: models that fill pool and store are all answered with
eager's bits, or refused when they are offered, with the arithmetic."""

import pytest
import torch

import laneway
from bench import exchange
from bench.harness import Options
from support.daemon import Lanewayd


def test_every_model_is_answered_or_refused():
    rows = {
        (row["case"], row["metric"]): row["value"] for row in exchange.run(Options(quick=True)).rows
    }
    for case in exchange.STORES:
        assert rows[case, "wrong"] == 0
        assert rows[case, "without_end"] == 0
    assert rows["as_large", "refused"] <= 2, "most of them fit, and can change places"
    assert rows["twice", "refused"] == 0


def test_a_model_that_would_leave_the_others_no_room_is_refused_with_the_arithmetic():
    with Lanewayd("--staging", "24MiB", pool="48MiB") as daemon, daemon.connect() as service:
        jobs = []
        with (
            torch.no_grad(),
            pytest.raises(laneway.Refused, match="could then never come back") as e,
        ):
            for number in range(4):
                model = torch.nn.Linear(1024, 5 * 1024).eval()  # 20 MiB
                jobs.append(laneway.inference(model, service=service, name=f"m{number}"))
                jobs[-1](torch.ones(1, 1024))
        assert "--staging" in str(e.value)
        assert 2 <= len(jobs) - 1 <= 3
        for job in jobs[:-1] * 2:
            job(torch.ones(1, 1024))
