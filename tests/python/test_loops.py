"""Shows that training scripts as people write them end the same, bit for bit, when they are ported
to Laneway: each pair of bench/scripts/ is run, and every loss, metric, model, optimizer, checkpoint
and the state of torch's generator are compared."""

from __future__ import annotations

import gc
import importlib

import pytest
import torch

from bench.loops import COMPARED, LOOPS
from bench.scripts.record import Record
from laneway.jobs import step_capture
from support.eager import assert_same

EPOCHS, BATCHES = 2, 3


@pytest.fixture(autouse=True)
def one_thread():
    """And jobs of one test end before the next: their steps are in cycles with their functions."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    gc.collect()


def run(module: str, folder) -> dict:
    folder.mkdir()
    record = Record(EPOCHS, BATCHES, folder)
    importlib.import_module(f"bench.scripts.{module}").main(record)
    return record.left


@pytest.mark.parametrize("name", [loop.name for loop in LOOPS])
def test_a_ported_loop_ends_as_the_script(name, tmp_path):
    expected, found = run(name, tmp_path / "eager"), run(f"{name}_laneway", tmp_path / "ported")
    for what in COMPARED:
        assert_same(expected[what], found[what], what)
    iterations = BATCHES * EPOCHS
    assert len(expected["losses"]) == iterations
    # The script trains, and its generator is compared where it moves: no two losses are equal.
    assert len({tuple(map(float, losses)) for losses in expected["losses"]}) == iterations


# The other one anneals a learning rate that is a variable of Python: another value, another form.
@pytest.mark.parametrize("name", [one.name for one in LOOPS if one.name != "word_lm_lstm"])
def test_a_ported_loop_is_captured_no_more_in_its_later_epochs(name, tmp_path, monkeypatch):
    captured: list[int] = []
    at_epochs: list[int] = []
    capture = step_capture.capture_train_step

    def counted(*args, **kwargs):
        captured.append(1)
        return capture(*args, **kwargs)

    monkeypatch.setattr(step_capture, "capture_train_step", counted)
    record = Record(4, BATCHES, tmp_path, lambda _: at_epochs.append(len(captured)))
    importlib.import_module(f"bench.scripts.{name}_laneway").main(record)
    assert 0 < len(captured) == at_epochs[2]
