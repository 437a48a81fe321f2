"""Comparing training states, and reading where a process's memory is."""

import mmap
import os

import torch

from bench import process_memory
from bench.state import digest, first_difference, tensors, training_state

PAGE = process_memory.PAGE


def test_every_tensor_is_found_with_its_path():
    nested = {"b": [torch.zeros(1), {"c": torch.ones(2)}], "a": torch.zeros(3), "n": 4}
    assert [name for name, _ in tensors(nested)] == ["a", "b[0]", "b[1].c"]


def test_states_are_equal_to_the_bit_or_the_difference_is_named():
    one = {"w": torch.tensor([1.0, 2.0, 3.0]), "step": torch.tensor(4.0)}
    two = {name: tensor.clone() for name, tensor in one.items()}
    assert first_difference(one, two) is None and digest(one) == digest(two)
    two["w"][1] = torch.nextafter(two["w"][1], torch.tensor(9.0))
    assert first_difference(one, two) == "w differs in 1 of 3 elements"
    assert digest(one) != digest(two)
    assert "only in the first" in first_difference(one, {"w": one["w"]})
    assert "float64" in first_difference(one, one | {"step": torch.tensor(4.0).double()})


def test_not_a_number_equals_itself_and_zero_is_not_minus_zero():
    """Bits count, not what a comparison of numbers would say."""
    nan = {"w": torch.tensor([float("nan")])}
    assert first_difference(nan, {"w": nan["w"].clone()}) is None
    assert first_difference({"w": torch.tensor([0.0])}, {"w": torch.tensor([-0.0])})


def test_an_optimizers_rate_is_no_state_but_its_moments_are():
    parameter = torch.nn.Parameter(torch.ones(2))
    states = []
    for rate in (0.1, torch.tensor(0.1)):
        optimizer = torch.optim.Adam([parameter], lr=rate, capturable=False)
        parameter.grad = torch.ones(2)
        optimizer.step()
        states.append(training_state({}, optimizer.state_dict()))
    assert first_difference(*states) is None
    assert any("exp_avg" in name for name in states[0])


def test_resident_bytes_of_a_shared_file_are_those_that_were_touched():
    """A memfd of 16 pages of which four are written: they alone count, in parts at the edges."""
    fd = os.memfd_create("bench-process-memory-test")
    try:
        os.ftruncate(fd, 16 * PAGE)
        with mmap.mmap(fd, 16 * PAGE) as shared:
            for page in (2, 3, 4, 9):
                shared[page * PAGE] = 1
            resident = process_memory.resident_in_file
            name = "bench-process-memory-test"
            assert resident(name, 0, 16 * PAGE) == 4 * PAGE
            assert resident(name, 3 * PAGE, 2 * PAGE) == 2 * PAGE
            assert resident(name, 2 * PAGE + 100, 50) == 50
            assert resident(name, 5 * PAGE, 4 * PAGE) == 0
            assert resident(name, 15 * PAGE, 9 * PAGE) == 0
        assert process_memory.mappings(name) == []
    finally:
        os.close(fd)


def test_anonymous_memory_counts_private_pages_and_no_shared_ones():
    size = 64 << 20
    before = process_memory.anonymous_bytes()
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as private:
        private[0:size] = b"x" * size
        grown = process_memory.anonymous_bytes() - before
    assert 0.9 * size < grown < 2.5 * size
