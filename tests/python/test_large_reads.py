"""What a step reads from outside of it and is large: numpy arrays, outer tensors, weights of
compiled code. A change is seen, or it is said beforehand that it would not be."""

import array
import ctypes

import numpy
import pytest
import torch
from torch import nn

import laneway
from laneway.capture import looks, use_reach
from laneway.compile import tracked_weights
from laneway.jobs.calls import outer_tensors
from laneway.jobs.calls.slot_contents import Sums
from support.both import check_equal, check_refused, net
from support.compiled import compiled, own_service, running  # noqa: F401

MIB = 1 << 20


def _factor(array):
    """A number that all of an array's elements go into, in a way that a capture may compute."""
    return float(array.reshape(-1)[-1])


# Each makes an array, of which a step reads the last element, that it can be written to.
ARRAYS = {
    "a small one": lambda: numpy.ones(8),
    "2 MiB": lambda: numpy.ones(MIB // 4),
    "12 MiB, of bytes": lambda: numpy.ones(12 * MIB + 3, dtype=numpy.uint8),
    "a transposed one": lambda: numpy.ones((700, 900)).T,
    "a part of another": lambda: numpy.ones((900, 900))[:, ::2],
    "of bytes, at an odd place": lambda: numpy.ones(12 * MIB + 3, dtype=numpy.uint8)[3:],
    "of objects": lambda: numpy.array([1.0, None, 1.0], dtype=object),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_written_to(name, service):
    def job(lane):
        array, model = ARRAYS[name](), net()
        plain = model.forward
        model.forward = lambda x: plain(x) * _factor(array)
        predict, x = lane.inference(model), torch.ones(2, 8)
        found = []
        for number in (None, None, 3, 2, 3):
            if number is not None:
                array[(-1,) * array.ndim] = number
            found.append(predict(x))
        return found

    check_equal(job, service)


def test_a_read_only_view_of_an_array_that_is_written_to(service):
    def job(lane):
        array, model = numpy.ones(MIB // 4), net()
        shown = array.view()
        shown.flags.writeable = False
        plain = model.forward
        model.forward = lambda x: plain(x) * _factor(shown)
        predict, found = lane.inference(model), []
        for number in (1, 3, 2, 3):
            array[-1] = number
            found.append(predict(torch.ones(2, 8)))
        return found

    check_equal(job, service)


@pytest.mark.parametrize("name", ["2 MiB", "12 MiB, of bytes", "a transposed one", "read only"])
def test_an_array_is_compared_in_its_own_memory(name):
    array = ARRAYS.get(name, ARRAYS["2 MiB"])()
    array.flags.writeable = name != "read only"
    numbers = looks._numbers(array)
    assert numbers.data_ptr() == array.ctypes.data
    assert numbers.numel() * numbers.element_size() == array.nbytes


# Each makes what has memory without an array, of which a step reads the last number.
MEMORY = {
    "a bytearray": lambda: bytearray(2 * MIB),
    "a view": lambda: memoryview(bytearray(2 * MIB)),
    "a view of a part": lambda: memoryview(bytearray(2 * MIB))[::2],
    "an array": lambda: array.array("d", bytes(2 * MIB)),
    "numbers of C": lambda: (ctypes.c_double * (MIB // 4))(),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_that_is_written_to(name, service):
    def job(lane):
        held, model = MEMORY[name](), net()
        plain = model.forward
        model.forward = lambda x: plain(x) * float(held[len(held) - 1])
        predict, found = lane.inference(model), []
        for number in (1, 3, 2, 3):
            held[len(held) - 1] = number
            found.append(predict(torch.ones(2, 8)))
        return found

    check_equal(job, service)


@pytest.mark.parametrize("name", MEMORY)
def test_memory_that_the_step_writes_is_refused_and_put_back(name, service):
    held, model = MEMORY[name](), net()
    before, plain = memoryview(held).tobytes(), model.forward

    def forward(x):
        held[len(held) - 1] = 1
        return plain(x)

    model.forward = forward
    predict = laneway.inference(model, service=service)
    with pytest.raises(laneway.CaptureError, match="held: it writes to it by C code"):
        predict(torch.ones(2, 8))
    assert memoryview(held).tobytes() == before


def test_memory_that_grows_is_seen_and_may_grow(service):
    """A comparison holds no export of a bytearray, which would keep it from growing."""

    def job(lane):
        held, model = bytearray(MIB), net()
        plain = model.forward
        model.forward = lambda x: plain(x) * float(len(held))
        predict, found = lane.inference(model), []
        for _ in range(3):
            found.append(predict(torch.ones(2, 8)))
            held.extend(b"abc")
        return found

    check_equal(job, service)


def test_memory_that_is_too_large_to_compare_is_refused(monkeypatch, service):
    """The remedy, a buffer of its bytes, is tried as well."""
    monkeypatch.setattr(use_reach, "MOST_ARRAY_BYTES", MIB)

    def job(is_buffer, lane):
        held, model = bytearray(b"\3") * (2 * MIB), net()
        plain = model.forward
        if is_buffer:
            model.register_buffer("held", torch.frombuffer(held, dtype=torch.uint8))
            model.forward = lambda x: plain(x) * model.held[-1]
        else:
            model.forward = lambda x: plain(x) * float(held[-1])
        return lane.inference(model)(torch.ones(2, 8))

    words = r"the bytearray held, of 2 MiB: .* at most 1 MiB .*as a buffer"
    check_refused(lambda lane: job(False, lane), service, words)
    check_equal(lambda lane: job(True, lane), service)


class Number:
    def __init__(self, value):
        self.value = value


def test_objects_of_an_array_that_come_and_go(service):
    """A new one at the address of one that is gone is another one."""

    def job(lane):
        array, model = numpy.array([Number(1.0)], dtype=object), net()
        plain = model.forward
        model.forward = lambda x: plain(x) * array[0].value
        predict, found = lane.inference(model), []
        for number in range(6):
            array[0] = None
            array[0] = Number(number + 0.5)
            found.append(predict(torch.ones(2, 8)))
        return found

    check_equal(job, service)


def test_an_array_is_captured_anew_once_for_each_value():
    array, model = numpy.ones(MIB // 2), net()
    plain = model.forward
    model.forward = lambda x: plain(x) * _factor(array)
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(model, service=service)
        for number in (1, 2, 1, 2):
            array[-1] = number
            predict(torch.ones(2, 8))
        assert predict._variants.counts()["made"] == 2


def test_arrays_that_are_too_large_to_compare_are_refused(monkeypatch, service):
    """The remedy, a buffer, is tried as well."""
    monkeypatch.setattr(use_reach, "MOST_ARRAY_BYTES", 3 * MIB)

    class Scaled(nn.Module):
        def __init__(self, is_buffer):
            super().__init__()
            self.tables = [numpy.ones(MIB // 4) for _ in range(2)]
            if is_buffer:
                tables, self.tables = self.tables, ()
                self.register_buffer("table", torch.from_numpy(numpy.stack(tables)))

        def forward(self, x):
            for table in self.tables:
                x = x * _factor(table)
            return x if self.tables else x * self.table[:, -1].prod()

    def job(is_buffer, lane):
        return lane.inference(Scaled(is_buffer))(torch.ones(3))

    words = r"of 2 MiB: .* at most 3 MiB .*as a buffer"
    check_refused(lambda lane: job(False, lane), service, words)
    check_equal(lambda lane: job(True, lane), service)


def test_an_outer_tensor_beyond_the_limit_is_told_of(monkeypatch):
    monkeypatch.setattr(outer_tensors, "MOST_BYTES", MIB)
    table = torch.ones(MIB)
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Table(table), service=service)
        with pytest.warns(RuntimeWarning, match=r"of 4 MiB .* at most 1 MiB .*copy_\(\)"):
            assert predict(torch.ones(())) == 1
        with torch.no_grad():
            table.copy_(torch.full_like(table, 2))  # the remedy
        assert predict(torch.ones(())) == 2


class Table(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.__dict__["table"] = table

    def forward(self, x):
        return x * self.table[-1]


WRITES = {
    "an element": lambda weight: weight.data.view(-1).__setitem__(-7, 5.0),
    "rows that change places": lambda weight: weight.data.copy_(weight.data.flip(0)),
    "rows of a permutation that change places": lambda weight: weight.data.copy_(
        torch.eye(*weight.shape)[torch.arange(len(weight)).flip(0)]
    ),
    "elements that change places": lambda weight: weight.data.copy_(weight.data.flip(1)),
    "by numpy": lambda weight: numpy.add(weight.detach().numpy(), 1, out=weight.detach().numpy()),
}


@pytest.mark.parametrize("write", WRITES)
def test_weights_too_large_for_a_copy(write, monkeypatch, own_service):  # noqa: F811
    """Compiled code sees writes that torch does not count by sums instead of by a copy."""
    monkeypatch.setattr(tracked_weights, "MOST_COPIED_BYTES", 0)
    monkeypatch.setattr(tracked_weights, "_FEW_BYTES", 0)
    torch.manual_seed(0)
    model, x = nn.Linear(300, 200), torch.randn(4, 300)
    with torch.no_grad():
        run = compiled(model)
        assert torch.equal(run(x), model(x))
        before = model(x)
        WRITES[write](model.weight)
        assert torch.equal(run(x), model(x)) and not torch.equal(model(x), before)
        assert torch.equal(run(x), model(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.complex64])
def test_sums_see_each_element(dtype):
    """Against the bytes themselves, for sizes around those of rows and for parts of tensors."""
    generator = torch.Generator().manual_seed(1)
    for count in (0, 1, 3, 8191, 40_001):
        tensor = torch.randint(0, 9, (count + 1,), generator=generator).to(dtype)[1:]
        known = Sums(tensor)
        assert known.are_those_of(tensor.clone())
        for place in {0, count // 2, count - 1} if count else ():
            other = tensor.clone()
            other[place] += 1
            assert not known.are_those_of(other), (count, place)
    assert not Sums(torch.zeros(8)).are_those_of(torch.zeros(9))


def test_sums_see_rows_that_change_places():
    """Rows of a permutation have equal sums, and so have their columns."""
    table = torch.eye(8192)
    known = Sums(table)
    other = table.clone()
    other[[0, 2]] = other[[2, 0]]
    assert not known.are_those_of(other)
