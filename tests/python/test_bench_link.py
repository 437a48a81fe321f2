"""The program of the bench of the host's link copies, and prints a time a round."""

import subprocess

import pytest

from bench import link
from bench.harness import find_program


@pytest.mark.parametrize("way", ["in", "out", "both"])
def test_the_program_copies_and_prints_a_time_a_round(way):
    program = str(find_program("laneway-link-rate"))
    times = link._trial([program, "100000", "10000000", "7", way, "2"])
    assert {what: len(each) for what, each in times.items()} == {
        "link_ns": 2,
        "memcpy_ns": 2,
        "cpu_ns": 2,
        "memcpy_cpu_ns": 2,
        "asleep_ns": 2,
        "small_ns": 0,
    }
    assert times["asleep_ns"][0] >= 10_000_000
    assert times["link_ns"][0] >= 9_999_000, "a hundredth of a second"


def test_the_program_makes_small_copies_beside_a_large_one():
    program = str(find_program("laneway-link-rate"))
    times = link._trial([program, "100000", "10000000", "1", "beside", "1"])
    assert len(times["link_ns"]) == 1
    assert times["memcpy_ns"] == []
    assert len(times["small_ns"]) >= 1


@pytest.mark.parametrize(
    "words",
    [[], ["10", "0", "1", "up", "1"], ["0", "0", "1", "in", "1"], ["10", "0", "11", "in", "1"]],
)
def test_the_program_refuses_what_it_cannot_copy(words):
    program = str(find_program("laneway-link-rate"))
    assert subprocess.run([program, *words], capture_output=True, check=False).returncode == 2
