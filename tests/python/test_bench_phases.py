"""The bench phases, with a few steps of its shortest phase: two trainings in a pool for one and a
half of them get done, and the ratio is of both together over one after the other."""

from bench import phases
from bench.harness import Options


def test_both_get_done_in_a_pool_for_one_and_a_half():
    report = phases.run(Options(quick=True, only=("5_ms",)))
    rows = {(row["case"], row["metric"]): row for row in report.rows}
    row = rows["5_ms", "over_in_turn"]
    assert row["value"] > 0
    assert ("5000_ms", "over_in_turn") not in rows
