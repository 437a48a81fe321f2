"""Tapes of the plan bench: their bound on cases worked out by hand, and their replay."""

import os
import random
import subprocess

import pytest

from bench import plan
from bench.tapes import Tape

PROGRAM = ("laneway-plan-alloc",)


def random_tape(rng):
    """Allocations of any size, freed in any order that is possible."""
    allocations, frees, alive = [], [], []
    for index in range(rng.randrange(1, 60)):
        while alive and rng.random() < 0.45:
            frees.append(alive.pop(rng.randrange(len(alive))))
        allocations.append((rng.choice([0, 1, 64, 100, 4096, rng.randrange(200_000)]), len(frees)))
        alive.append(index)
    rng.shuffle(alive)
    return Tape(allocations, frees + alive)


@pytest.fixture
def rng():
    seed = int(os.environ.get("LANEWAY_SEED", random.SystemRandom().randrange(2**32)))
    print(f"LANEWAY_SEED={seed}")
    return random.Random(seed)


def test_the_bound_of_known_tapes():
    """Two of 64 at once, then one of 100 (padded to 128) after both were freed."""
    assert Tape([(64, 0), (64, 0), (100, 2)], [0, 1, 2]).live_bound() == 128
    assert Tape([(64, 0), (64, 0), (100, 0)], [0, 1, 2]).live_bound() == 256
    assert Tape([(0, 0)], [0]).live_bound() == 64
    assert Tape([(10, 0)], []).live_bound(alignment=1) == 10


def test_a_written_tape_frees_everything(tmp_path):
    """What an iteration leaves alive is freed after its end, so that replays can repeat."""
    path = tmp_path / "x" / "a.tape"
    Tape([(64, 0), (8, 1)], [0]).write(path)
    assert path.read_text().split() == "2 2 64 0 8 1 0 1".split()


def test_random_tapes_replay_on_both_sides_without_page_faults(program, rng, tmp_path):
    """As many samples as asked for, each an amount of time; a handful of faults at most (the
    vectors of samples), where replays through fresh pages would meet thousands."""
    for index in range(5):
        tape = random_tape(rng)
        tape.write(tmp_path / f"{index}.tape")
        found = plan.replay(tmp_path / f"{index}.tape", 4)
        assert found["events"] == 2 * len(tape.allocations)
        assert len(found["planned_ns"]) == len(found["glibc_ns"]) == 4
        assert min(found["planned_ns"] + found["glibc_ns"]) > 0
        assert found["minor_faults"] < 50


@pytest.mark.parametrize("text", ["", "1 1 64", "1 1 64 0 7", "2 2 64 0 8 0 0 0", "x y"])
def test_what_is_no_tape_is_refused(program, tmp_path, text):
    (tmp_path / "a.tape").write_text(text)
    done = subprocess.run(
        [program, tmp_path / "a.tape", "3"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "a.tape" in done.stderr
    assert subprocess.run([program], capture_output=True).returncode == 2
