"""The bench loops: lines of a port are counted as they should be; two runs that differ are told
apart; a script runs an epoch when it is told to."""

import warnings

import pytest

from bench import loop_costs, loops
from bench.paced import PacedScript
from bench.report import Report
from bench.scripts.record import Record
from bench.worker import WorkerFailed

SCRIPT = """
import torch

for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss)
"""
PORT = """
import torch
import laneway


@laneway.step(model, optimizer)
def iteration(x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for x, y in loader:
    print(iteration(x, y))
"""


def test_added_and_edited_lines_count_and_no_others():
    assert loops.changed_lines(SCRIPT, PORT) == [
        "import laneway",
        "@laneway.step(model, optimizer)",
        "def iteration(x, y):",
        "return loss",
        "print(iteration(x, y))",
    ]
    assert loops.changed_lines(SCRIPT, SCRIPT.replace("    ", "        ") + "\n\n") == []
    assert loops.changed_lines(SCRIPT, SCRIPT.replace("    optimizer.step()\n", "")) == []
    assert loops.changed_lines("a = 1\nb = 2\n", "b = 2\na = 1\n") == []


def test_a_line_that_stands_twice_in_the_port_was_added_once():
    assert loops.changed_lines("step()\n", "step()\nstep()\n") == ["step()"]


def test_every_port_imports_laneway_and_lines_are_held_to_the_target():
    for loop in loops.LOOPS:
        assert any(
            "import" in line and "laneway" in line for line in loops.lines_of_port(loop.name)
        )
    changed = len(loops.lines_of_port("nanogpt"))
    report = Report("loops")
    loops.report_lines(loops.Loop("nanogpt", 1, lines=changed), report)
    loops.report_lines(loops.Loop("nanogpt", 1, lines=changed - 1), report)
    assert [row["holds"] for row in report.rows] == [True, False]
    assert report.rows[1]["value"] == changed > 3


def rows(report):
    return {row["metric"]: row for row in report.rows}


def test_what_differs_is_told_by_name():
    def left(**changed):
        return {"digests": dict.fromkeys(loops.COMPARED, "same") | changed, "captures": 2}

    report = Report("loops")
    loops.report_equality("mnist", {"eager": left(), "ported": left(model="other")}, report)
    found = rows(report)
    assert found["model_equal"]["holds"] is False
    assert found["losses_equal"]["holds"] is True and found["captures"]["value"] == 2


def test_records_differ_by_their_last_bit_or_sign(tmp_path):
    """The digests that decide whether two runs are equal."""
    import torch

    def digests(loss):
        record = Record(1, 1, tmp_path)
        record.loss(loss)
        record.end([], [])
        return record.digests()

    one = digests(torch.tensor([1.0, 0.0]))
    assert digests(torch.tensor([1.0, 0.0])) == one
    for other in (torch.tensor([1.0, -0.0]), torch.tensor([[1.0, 0.0]]), torch.tensor([1, 0])):
        assert digests(other)["losses"] != one["losses"]
    assert digests(0.1)["losses"] != digests(0.1 + 2**-56)["losses"]


def make(module, **more):
    made = {"module": module, "options": {}, "epochs": 2, "batches": 3, "threads": 1, "cores": []}
    return made | more


def test_a_script_runs_an_epoch_at_a_time_and_tells_what_it_left():
    with PacedScript(make("bench.scripts.gat")) as script:
        script.wait_until_ready()
        assert script.epoch() > 0 and script.epoch() > 0
        left = script.end()
    assert left["captures"] == 0 and set(left["digests"]) == set(loops.COMPARED)


def test_a_script_that_fails_or_dies_is_noticed():
    with (
        PacedScript(make("bench.scripts.no_such_script")) as script,
        pytest.raises(WorkerFailed, match="ModuleNotFoundError"),
    ):
        script.wait_until_ready()
    with PacedScript(make("bench.scripts.gat")) as script:
        script._process.kill()
        with pytest.raises(WorkerFailed, match="ended"):
            script.wait_until_ready()


@pytest.mark.parametrize(
    "options",
    [
        {"case": "sync_on_read"},
        {"case": "shared_generator", "dropout": True},
        {"case": "shared_generator", "dropout": False},
    ],
)
def test_the_two_steps_of_a_cost_train_the_same(options, tmp_path, monkeypatch):
    """main() raises where they do not. One step of sync_on_read synchronises by hand, and each is
    evaluated after each epoch."""
    monkeypatch.setattr(loop_costs, "CHUNKS", 1)
    record = Record(4, 1, tmp_path)
    with warnings.catch_warnings():
        # The step that synchronises by hand warns of each first read, behind sync_to too.
        warnings.filterwarnings("ignore", message="this model is trained by")
        loop_costs.main(record, **options)
    losses = [loss.item() if hasattr(loss, "item") else loss for (loss,) in record.left["losses"]]
    assert losses[0] == losses[1] and losses[2] == losses[3] and losses[0] != losses[2]
