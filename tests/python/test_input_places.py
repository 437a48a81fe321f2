"""Inputs that begin between two multiples of 16 bytes, as slices of a table do: bits of matrix
products depend on the place, in eager PyTorch too."""

import warnings

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_inference
from support.both import Served, check_equal
from support.eager import assert_same


def at(tensor: torch.Tensor, place: int) -> torch.Tensor:
    """A copy that begins `place` bytes behind a multiple of 64, in a larger memory."""
    size = tensor.element_size()
    memory = torch.empty(tensor.numel() + 256 // size, dtype=tensor.dtype)
    begin = (place + 64 - memory.data_ptr()) % 64 // size + 64 // size
    made = memory[begin : begin + tensor.numel()].view(tensor.shape)
    made.copy_(tensor)
    assert made.data_ptr() % 64 == place
    return made


def test_a_training_on_slices_of_a_table(service):
    def job(lane):
        table, wanted = torch.randn(60, 101), torch.randn(60, 1)
        model = nn.Sequential(nn.Linear(101, 300), nn.Tanh(), nn.Linear(300, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        train = lane.train_step(model, F.mse_loss, optimizer)
        losses = [train(table[i : i + 3], wanted[i : i + 3]) for i in range(0, 60, 3)]
        return losses, model

    check_equal(job, service)


def _ones(x, *sizes):
    return torch.ones(*sizes, dtype=x.dtype)


# What is computed from an input, and whether its place is a part of the form.
PRODUCTS = {
    "mm": (lambda x: x @ _ones(x, 33, 5), True),
    "dot": (lambda x: x.flatten().dot(x.flatten()), True),
    "mv": (lambda x: x @ _ones(x, 33), True),
    "bmm": (lambda x: torch.bmm(x[None], x.t()[None]), True),
    "attention": (lambda x: F.scaled_dot_product_attention(*[x.view(1, 1, 7, 33)] * 3), True),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, x), True),
    "linear": (lambda x: F.linear(x, _ones(x, 4, 33)), True),
    "softmax": (lambda x: x.softmax(-1), False),
    "a copy first": (lambda x: x.neg() @ _ones(x, 33, 5), False),
}


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Applied2(nn.Module):
    def forward(self, x, y):
        return x @ y


class Applied3(nn.Module):
    def forward(self, x, y, z):
        return (x @ y.t()) + (x @ z.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_inputs_at_all_places(name, dtype):
    function, by_place = PRODUCTS[name]
    if dtype.is_complex and name in ("attention", "softmax"):
        function, by_place = lambda x: x.t() @ x, True
    torch.manual_seed(0)
    x = torch.randn(7, 33, dtype=dtype)
    places = range(0, 64, x.element_size())
    with laneway.embedded("64MiB") as service:
        predict = Served(service).inference(Applied(function))
        for place in (*places, *places):
            given = at(x, place)
            assert_same(predict(given), function(given))
        made = predict._variants.counts()["made"]
    assert made == (len({place % 16 for place in places}) if by_place else 1)


# Views of another dtype in the input's memory count in their own elements.
VIEWS = {
    "real parts": (torch.complex64, lambda x: torch.view_as_real(x).flatten(1) @ torch.ones(10, 3)),
    "halves": (torch.float64, lambda x: x.view(torch.float32).nan_to_num() @ torch.ones(10, 3)),
    "conjugated": (torch.complex64, lambda x: (x.conj() @ x.t()).imag),
    "bits": (torch.int32, lambda x: x.view(torch.float32).nan_to_num() @ torch.ones(5, 3)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_another_dtype(name, service):
    dtype, function = VIEWS[name]

    def job(lane):
        table = torch.randint(-9, 9, (90,)).to(dtype)
        predict = lane.inference(Applied(function))
        return [predict(table[begin : begin + 15].view(3, 5)) for begin in (0, 1, 2, 3, 1, 60)]

    check_equal(job, service)


def test_a_memory_that_begins_between(service):
    """Nothing lies before the first element that could be sent with it: it is copied, and told."""

    def job(lane):
        numbers = numpy.zeros(8 + 7 * 33 * 4, dtype=numpy.uint8)
        begin = (4 - numbers.ctypes.data) % 16
        part = numbers[begin : begin + 7 * 33 * 4].view(numpy.float32)
        part[:] = numpy.arange(7 * 33) / 77
        x = torch.from_numpy(part).view(7, 33)
        assert x.storage_offset() == 0 and x.data_ptr() % 16 == 4
        predict = lane.inference(nn.Linear(33, 9).requires_grad_(False))
        found = [predict(x), predict(x.clone())]  # the remedy
        return [*found, predict(x)], x

    with pytest.warns(RuntimeWarning, match=r"input 0 begins 4 bytes behind .*\.clone\(\)") as told:
        check_equal(job, service)
    assert len([w for w in told if "multiple of 16" in str(w.message)]) == 1


def _between(tensor):
    """A copy whose memory begins 4 bytes behind a multiple of 16."""
    size = tensor.numel() * 4
    numbers = numpy.zeros(size + 32, dtype=numpy.uint8)
    begin = (4 - numbers.ctypes.data) % 16
    made = torch.from_numpy(numbers[begin : begin + size].view(numpy.float32)).view(tensor.shape)
    return made.copy_(tensor)


@pytest.mark.parametrize("is_whole", [True, False], ids=["a whole memory", "a slice"])
@pytest.mark.parametrize("kind", ["a parameter", "a tensor outside"])
def test_other_tensors_that_begin_between_are_told_of(kind, is_whole, service):
    """Eager's bits may be others; with the remedy they are eager's, and nothing is told."""
    wanted = torch.randn(9, 33)
    odd = _between(wanted) if is_whole else at(wanted, 4)
    model = nn.Linear(33, 9, bias=False)

    def job(clones, lane):
        tensor = odd.clone() if clones else odd
        if kind == "a parameter":
            model.weight = nn.Parameter(tensor)
            return lane.inference(model)(torch.ones(3, 33))
        return lane.inference(Applied(lambda x: x @ tensor.t()))(torch.ones(3, 33))

    name = "weight" if kind == "a parameter" else "constant/0"
    if kind == "a parameter" and not is_whole:  # it lies in its memory as in the user's
        check_equal(lambda lane: job(False, lane), service)
    else:
        with pytest.warns(RuntimeWarning, match=rf"{name} begins 4 bytes behind .*\.clone\(\)"):
            job(False, Served(service))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_equal(lambda lane: job(True, lane), service)


def test_what_a_step_leaves_in_such_an_input(service):
    """Writes to it and its gradient reach the caller's tensor, and numbers that the step decides by
    are read from it."""

    def job(lane):
        model = nn.Linear(33, 9)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            if bool((y > 0).all()):
                y.mul_(0.5)
            loss = (model(x) * (y @ torch.ones(33, 9))).sum()
            loss.backward()
            optimizer.step()
            return loss

        out = []
        for place in (4, 8, 4, 0, 60):
            x, y = at(torch.randn(7, 33), place), at(torch.rand(7, 33) + 0.1, place)
            x = x.requires_grad_()
            out += [train(x, y), y, x.grad]
        return out, model

    check_equal(job, service)


@pytest.mark.parametrize("limit", [1, 8])
def test_two_inputs_at_places_of_chance(limit):
    """Sixteen graphs, which count as one, are captured once each."""
    torch.manual_seed(0)
    x, y = torch.randn(5, 33), torch.randn(33, 5)
    pairs = [(a, b) for a in range(0, 16, 4) for b in range(0, 16, 4)]
    with laneway.embedded("64MiB") as service, warnings.catch_warnings():
        warnings.simplefilter("error")
        predict = laneway.inference(Applied2(), service, max_variants=limit)
        for first, second in (*pairs, *pairs):
            given = at(x, first), at(y, second)
            assert_same(predict(*given), given[0] @ given[1])
        assert predict._variants.counts() == {"made": 16, "kept": 16, "dropped": 0}
        predict(x[:4], y)
        assert predict._variants.counts()["kept"] == (1 if limit == 1 else 17)


def test_one_shape_more_drops_the_shape_that_was_used_longest_ago():
    """With all its places, and no graph of another."""
    pairs = [(a, b) for a in range(0, 16, 4) for b in range(0, 16, 4)]
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Applied2(), service)
        for rows in range(2, 12):
            x, y = torch.randn(rows, 33), torch.randn(33, 5)
            for first, second in pairs:
                given = at(x, first), at(y, second)
                assert_same(predict(*given), given[0] @ given[1])
            assert predict._variants.counts()["kept"] == min(16 * (rows - 1), 32)
        assert predict._variants.counts() == {"made": 160, "kept": 32, "dropped": 128}


def test_more_places_than_are_kept_are_told_of():
    inputs = [torch.randn(1, 33) for _ in range(3)]
    places = [(a, b, c) for a in (0, 4) for b in range(0, 16, 4) for c in range(0, 16, 4)]
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Applied3(), service, max_variants=1)
        for each in places[:17]:
            predict(*map(at, inputs, each))
        assert predict._variants.counts()["dropped"] > 0
        with pytest.warns(
            RuntimeWarning, match=r"captured a form .* again .*\.clone\(\) begins at 0"
        ):
            for each in places[:17]:
                predict(*map(at, inputs, each))
        made = predict._variants.counts()["made"]
        for each in places:
            predict(*[at(tensor, place).clone() for tensor, place in zip(inputs, each)])  # remedy
        assert predict._variants.counts()["made"] <= made + 1


def test_a_transposed_slice(service):
    def job(lane):
        table = torch.randn(40, 37)
        predict = lane.inference(nn.Linear(5, 9).requires_grad_(False))
        return [predict(table[i : i + 5, 3:].t()) for i in range(20)]

    check_equal(job, service)


def test_the_graph_begins_with_a_view():
    """The input's memory is longer by its place, and the form of the call says so."""
    x = at(torch.randn(7, 33), 8)
    captured = capture_inference(nn.Linear(33, 9), (x,))
    graph = captured.graph
    assert captured.inputs.specs[0].place == 8
    assert graph.nodes[0].op == "aten::as_strided"
    assert graph.values[graph.inputs[0]].sizes == (7 * 33 + 2,)
    assert "begins 0 bytes" in (captured.inputs.difference((at(x, 0),)) or "")
    assert captured.inputs.difference((at(x, 24),)) is None
