"""The bench early: both forms of a real step end with the same bits, which its program compares;
the bounds are worked out here from the tapes."""

import subprocess

import pytest

from bench import early
from bench.harness import find_program
from bench.height import write_step
from bench.report import Report

TAPE = {"allocations": [[64, 0], [128, 0], [64, 2]], "frees": [0, 1, 2], "marks": []}
SHORT = {"allocations": [[64, 0], [64, 1], [64, 2]], "frees": [0, 1, 2], "marks": []}


def form(tape, first_write, nodes, times):
    return tape | {
        "first_write": first_write, "nodes": nodes, "iteration_ns": times, "peak_bytes": 256,
    }  # fmt: skip


def test_rows_of_known_forms():
    found = {"refused": None, "moved": 3, "late": form(TAPE, 8, 10, [10, 20, 40])}
    report = Report("early")
    early.add_rows("vgg11", found | {"early": form(SHORT, 4, 10, [10, 22, 90])}, report)
    rows = {row["metric"]: row for row in report.rows}
    assert rows["bound_over_late"]["value"] == pytest.approx(64 / 192)
    assert rows["time_over_late"]["value"] == pytest.approx(1.1)
    assert rows["early_commit_nodes"]["value"] == pytest.approx(0.6)
    assert rows["late_commit_nodes"]["value"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="every update waits"):
        early.add_rows("vgg11", found | {"early": None, "refused": "every update waits"}, report)


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """Of a model whose gradients lie beside each other at the peak."""
    try:
        find_program("laneway-early-form")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("step")
    write_step(folder, "mobilenet_v3_small", 1)
    return folder


def test_a_real_step_takes_less_memory_early(step):
    found = early.measure(step, 1, 1)
    assert found["refused"] is None and found["moved"] > 10
    assert found["early"]["first_write"] < found["late"]["first_write"]
    assert found["early"]["nodes"] >= found["late"]["nodes"]
    bounds = [early.Tape.of(found[name]).live_bound() for name in ("early", "late")]
    assert bounds[0] < bounds[1]
    assert [len(found[name]["iteration_ns"]) for name in ("early", "late")] == [2, 2]


def test_a_job_without_files_is_refused(step, tmp_path):
    with pytest.raises(RuntimeError, match="graph cannot be read"):
        early.measure(tmp_path, 1, 1)
    assert subprocess.run([find_program("laneway-early-form")], capture_output=True).returncode == 2
