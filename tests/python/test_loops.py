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
