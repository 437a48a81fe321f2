"""The bench phases, with a few steps of its shortest phase: two equal trainings in a pool for one
and a half of them do the same steps, alone and together, and keep every bit."""

import pytest

from bench import phases
from bench.harness import Options


def test_both_do_the_same_in_a_pool_for_one_and_a_half():
    report = phases.run(Options(quick=True, only=("5_ms",)))
    rows = {(row["case"], row["metric"]): row["value"] for row in report.rows}
    assert rows["5_ms", "differing"] == 0
    assert ("5000_ms", "over_in_turn") not in rows, "not asked for"


def test_what_fails_in_a_thread_is_no_short_time():
    class Fails:
        def run(self, steps: int, gap_s: float) -> None:
            raise RuntimeError("no step was done")

    with pytest.raises(RuntimeError, match="no step"):
        phases.together([Fails()], 1, 0)


def test_a_weight_that_differs_is_counted():
    class Of:
        def __init__(self, weight: float) -> None:
            self.step = self
            self._weight = weight

        def state_dict(self):
            return {"model": {"weight": phases.torch.tensor([self._weight])}}

    assert phases.differing([Of(1.0), Of(1.0)]) == 0
    assert phases.differing([Of(1.0), Of(2.0)]) == 1
