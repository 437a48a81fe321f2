"""The bench height: what it works out of a tape and a plan, on cases worked out by hand, and that
its program's plans of a real step are whole."""

import os
import random
import subprocess

import pytest

from bench import height
from bench.harness import find_program
from bench.report import Report
from bench.tapes import Span, Tape, padded, spans

# 64 bytes all the time, 128 in the second node only, then 64 in their place.
TAPE = Tape([(64, 0), (128, 0), (64, 1)], [1, 2, 0])
MARKS = [[0, 0], [1, 0], [2, 1], [3, 2]]
OFFSETS = [0, 64, 64]


def test_what_is_alive_in_each_node():
    assert spans(TAPE, MARKS) == [
        Span(frozenset({0}), 64),
        Span(frozenset({0, 1}), 192),
        Span(frozenset({0, 2}), 128),
        Span(frozenset({0}), 64),
    ]
    # What is made and freed before the first mark is no node's.
    assert spans(Tape([(8, 0), (8, 1)], [0, 1]), [[1, 1]]) == [Span(frozenset({1}), 64)]


def test_heights_and_reaches_of_a_known_plan():
    found = height.heights(TAPE, spans(TAPE, MARKS), OFFSETS)
    assert found == [64, 192, 128, 64]
    assert height.reaches(found) == [192, 192, 128, 64]
    assert height.mean(found, [1, 3, 0, 0]) == 160


def test_a_plan_with_two_blocks_in_one_place_has_no_peak():
    assert TAPE.peak(OFFSETS) == 192
    with pytest.raises(ValueError, match="0 and 1 overlap"):
        TAPE.peak([64, 0, 0])
    with pytest.raises(ValueError, match="allocation 1 lies at 65"):
        TAPE.peak([0, 65, 64])


def test_the_rows_of_a_known_plan():
    report = Report("height")
    plan = {"offsets": OFFSETS, "peak_bytes": 192, "search_s": 0.5}
    plan |= {"rise": [64, 192, 128, 64], "reach": [192, 192, 128, 64]}
    high = {"offsets": [128, 0, 0], "rise": [192] * 4, "reach": [192] * 4}
    found = {"allocations": TAPE.allocations, "frees": TAPE.frees, "marks": MARKS}
    found |= {"node_ns": [2, 1, 1], "first_write": 2, "heights": plan, "lowest": high}
    height.add_rows("known", found, report)
    rows = {row["metric"]: row["value"] for row in report.rows}
    assert rows == {
        "peak_over_bound": 1,
        "search_s": 0.5,
        "excess": 0,
        "mean_height": pytest.approx((2 * 64 + 192 + 128) / 4 / 192),
        "mean_live": pytest.approx((2 * 64 + 192 + 128) / 4 / 192),
        "mean_reach": pytest.approx((2 * 192 + 192 + 128) / 4 / 192),
        "lowest_mean_height": 1,
        "commit_share": 0.25,
    }
    assert report.missed() == []
    with pytest.raises(ValueError, match="memory/heights"):
        height.add_rows("known", found | {"heights": plan | {"reach": [192] * 4}}, report)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    try:
        find_program("laneway-plan-height")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("step")
    height.write_step(folder, "cnn", 1)
    return height.measure(folder, 2, 1)


def test_the_plans_of_a_real_step_are_whole(found):
    """Both plans: nothing overlaps, and each node is timed; the one for heights is lower over the
    nodes' time, and within its limit."""
    tape, nodes = Tape.of(found), spans(Tape.of(found), found["marks"])
    assert len(found["node_ns"]) == len(nodes) - 1 > found["first_write"] > 0
    assert min(found["node_ns"]) >= 0 and sum(found["node_ns"]) > 0
    assert max(node.live for node in nodes) == tape.live_bound()
    for plan in ("lowest", "heights"):
        assert tape.peak(found[plan]["offsets"]) == found[plan]["peak_bytes"]
    assert found["heights"]["peak_bytes"] <= 1.08 * tape.live_bound()
    times = [*found["node_ns"], 0]
    low, lowest = (
        height.mean(height.heights(tape, nodes, found[plan]["offsets"]), times)
        for plan in ("heights", "lowest")
    )
    assert low < lowest


def test_a_job_without_files_is_refused(found, tmp_path):
    with pytest.raises(RuntimeError, match="graph cannot be read"):
        height.measure(tmp_path, 1, 1)
    program = find_program("laneway-plan-height")
    assert subprocess.run([program], capture_output=True).returncode == 2


def test_live_bytes_are_those_of_a_replay_event_by_event():
    """Random tapes, with a mark before each event: the node's live bytes are the sum there."""
    seed = int(os.environ.get("LANEWAY_SEED", random.SystemRandom().randrange(2**32)))
    print(f"LANEWAY_SEED={seed}")
    rng = random.Random(seed)
    allocations, frees, alive, marks, sums = [], [], [], [], []
    for _ in range(300):
        marks.append([len(allocations), len(frees)])
        sums.append(sum(padded(allocations[block][0]) for block in alive))
        if alive and rng.random() < 0.45:
            frees.append(alive.pop(rng.randrange(len(alive))))
        else:
            alive.append(len(allocations))
            allocations.append((rng.randrange(5000), len(frees)))
    after = [*sums[1:], sum(padded(allocations[block][0]) for block in alive)]
    expected = [max(pair) for pair in zip(sums, after, strict=True)]
    assert [node.live for node in spans(Tape(allocations, frees), marks)] == expected
