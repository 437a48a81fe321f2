"""The bench schedules: its bound and what it calls software are those of hand-made timestamps, and
its program answers under every schedule what eager does."""

import pytest
import torch
from torch import nn

from bench import schedules
from bench.harness import Calibration
from bench.report import Report


def trial(answer, copy=(0, 0), waits=(), starts=(0,), messages=()):
    return {
        "answer": answer,
        "copy": list(copy),
        "waits": list(waits),
        "starts": list(starts),
        "messages": list(messages),
    }


def test_the_bound_is_over_what_each_node_needs():
    ready = [trial(1000, starts=(0, 400, 990))]
    facts = {"needs": [100, 200, 300]}
    assert schedules.bound(facts, 1e9 * 10, ready) == 1010  # the first 100 bytes take 10 ns
    assert schedules.bound(facts, 1e9 / 10, ready) == 3010  # the last byte, then the answer
    assert schedules.bound(facts, 1e9 / 3, ready) == 1300  # the first node's


def test_software_is_what_is_neither_copying_nor_computing():
    assert schedules.software(trial(100, starts=(5,))) == 5  # ready: before the first node
    # Copied from 10 to 60; computed from 20 to 40 and from 70 on.
    behind = trial(100, copy=(10, 60), waits=(40, 70), starts=(20, 70))
    assert schedules.software(behind) == 10 + 10
    # Waits before the first node are no computing.
    late = trial(100, copy=(10, 60), waits=(15, 65), starts=(65,))
    assert schedules.software(late) == 10 + 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Linear(256, 256), nn.ReLU(), nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256))
    )
    path = tmp_path_factory.mktemp("job")
    schedules.write_job(path, model.eval(), (torch.randn(8, 256),))
    return path


def test_every_schedule_answers_what_eager_does(folder):
    with schedules.Program(folder, 50_000_000) as program:
        assert program.facts["needs"][-1] == program.facts["size"]
        assert program.facts["modules"] == [3]
        answers = []
        for name in schedules.SCHEDULES:
            found = program.trial(name)
            assert len(found["starts"]) == len(program.facts["needs"])
            if name == "ready":
                assert found["waits"] == []
                continue
            # Nobody answers before the last byte.
            assert found["answer"] >= found["copy"][1]
            assert schedules.software(found) < found["answer"]
            answers.append(found["answer"])
        # The link takes its time: what one copy was late, the next one may be early.
        assert sum(answers) >= len(answers) * program.facts["size"] / 50e6 * 1e9 * 0.99


def test_an_answer_that_is_not_eagers_ends_the_program(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    image = bytearray((folder / "image").read_bytes())
    image[3] ^= 0x40
    (tmp_path / "image").write_bytes(image)
    with pytest.raises(RuntimeError, match="not eager's"):
        schedules.Program(tmp_path, 0)


def test_what_is_measured_becomes_rows():
    torch.manual_seed(2)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    report = Report("schedules")
    schedules.STEADY, steady = 100.0, schedules.STEADY  # the machine may be busy
    try:
        job = (model.eval(), (torch.randn(64, 256),))
        schedules.measure("small_1", job, 1.0, 2, Calibration(), report)
    finally:
        schedules.STEADY = steady
    found = {(row["case"], row["metric"]): row["value"] for row in report.rows}
    assert found["small_1", "bound_ms"] > 0
    for name in schedules.SCHEDULES[1:]:
        of = f"small_1_{name}"
        assert 0 <= found[of, "software_ms"] < found[of, "answer_ms"]
