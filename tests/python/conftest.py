"""Lets tests import the package, the benches and their support from the checkout, and starts each
from the same state of torch."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests" / "python")]


@pytest.fixture(autouse=True)
def one_thread_and_seed():
    """Every test starts from the same random state, with one thread, and leaves torch as it was."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
