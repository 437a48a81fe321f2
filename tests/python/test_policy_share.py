"""The rule of `fair` as a program from outside the tree shares as the built-in one does: in virtual
time, job by job."""

import csv
import subprocess

import pytest

from bench import fair_program
from laneway.native.programs import program

QUANTUM_S = 10
# Equal iterations of a second; one comes in the middle, another one long after it.
TRACE = """job_id,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb
long,0,300,1000,60,1
middle,0,200,1000,60,1
late,50,100,1000,60,1
last,580,30,1000,60,1
"""
JOBS = 4


def test_it_shares_as_the_built_in_one_does_within_a_quantum_of_each_job(tmp_path):
    simulator = program("laneway-simulate")
    if simulator is None:
        pytest.skip("laneway-simulate is not built")
    trace, lines = tmp_path / "jobs.csv", tmp_path / "lines.csv"
    trace.write_text(TRACE)
    built_in = f"fair:quantum_s={QUANTUM_S}:age=off"
    own = f"{fair_program.write(tmp_path)}:quantum_s={QUANTUM_S}:age=off"
    words = ["--trace", trace, "--policy", f"{built_in},{own}", "--csv", lines]
    subprocess.run([simulator, *map(str, words)], check=True, capture_output=True, timeout=120)
    ends: dict[str, dict[str, float]] = {built_in: {}, own: {}}
    with lines.open() as file:
        for row in csv.DictReader(file):
            ends[row["policy"]][row["job_id"]] = float(row["ended_s"])
    assert set(ends[built_in]) == set(ends[own]) == {"long", "middle", "late", "last"}
    for job, end in ends[built_in].items():
        assert ends[own][job] == pytest.approx(end, abs=JOBS * QUANTUM_S), job
    # And fifo does not: the check sees another rule.
    assert ends[own]["late"] < ends[own]["middle"] < ends[own]["long"]
