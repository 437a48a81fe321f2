"""The bench pairs: what its own simulation finds by hand, and that the core is held against it."""

import pytest

from bench import pairs
from bench.harness import Options, find_program
from bench.pairs import Job, Pairs, known

KINDS = Pairs(
    speeds={
        ("small", "small"): (1.0, 1.0),
        ("large", "small"): (0.5, 0.75),
        ("small", "large"): (0.75, 0.5),
        ("large", "large"): (0.0, 0.0),
    },
    iterations_per_s={"small": 10.0, "large": 2.0},
)
SMALL, LARGE = Job("small", 1000, 100), Job("large", 200, 500)  # 100 s each

HEADER = "gpu,job_a,job_b,iso_a_it_s,iso_b_it_s,packed_a_it_s,packed_b_it_s,norm_a,norm_b\n"
FILE = HEADER + "".join(
    f"{gpu},{line}\n"
    for gpu in pairs.GPUS
    for line in (
        "small,small,10,10,10,10,1,1",
        "large,small,2,10,1,7.5,0.5,0.75",
        "large,large,2,2,0,0,0,0",
    )
)


def test_the_simulation_of_known_pairs_by_hand():
    assert known([SMALL], KINDS) == pytest.approx(100)
    assert known([SMALL, SMALL, SMALL], KINDS) == pytest.approx(200)
    assert known([LARGE, LARGE], KINDS) == pytest.approx(200)
    # The small one ends after 133.3 s, the large one, which has a third left, 33.3 s later.
    assert known([SMALL, LARGE], KINDS) == pytest.approx(500 / 3)


def test_jobs_are_drawn_from_the_seed():
    jobs = pairs.drawn(KINDS, 3)
    assert jobs == pairs.drawn(KINDS, 3) != pairs.drawn(KINDS, 4)
    assert len(jobs) == pairs.JOBS and {job.kind for job in jobs} == {"small", "large"}
    assert all(99 < job.length_s() < 1001 for job in jobs)


def test_without_the_file_rows_are_null(tmp_path):
    for options in (Options(), Options(traces=tmp_path)):
        rows = pairs.run(options).rows
        assert [(row["case"], row["value"]) for row in rows] == [(gpu, None) for gpu in pairs.GPUS]


def test_the_core_does_what_known_pairs_give(tmp_path, monkeypatch):
    try:
        find_program("laneway-simulate", "bin")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    (tmp_path / pairs.FILE).write_text(FILE)
    monkeypatch.setattr(pairs, "JOBS", 20)
    report = pairs.run(Options(quick=True, traces=tmp_path, only=("v100",)))
    found = {row["metric"]: row["value"] for row in report.rows}
    assert 0.5 < found["known"] < 1
    assert found["trials"] / found["known"] == pytest.approx(1, abs=0.1)
