"""Tensors at the border of a step: inputs that require a gradient, are parameters or of a class
with a meaning of its own, and results in eager's strides. Each has eager's bits, or a refusal whose
remedy is tried here."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net
from support.eager import assert_same


def penalised(lane, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if x.requires_grad:
            (g,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + 10 * g.pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return train


def test_whether_an_input_requires_a_gradient_is_part_of_the_form(service):
    def job(lane):
        model = net()
        train = penalised(lane, model)
        losses = [
            train(x.requires_grad_(n % 2 == 1), y).clone() for n, (x, y) in enumerate(batches())
        ]
        return losses, model

    check_equal(job, service)


def test_the_gradient_of_an_input_is_left_in_it(service):
    """Adversarial examples, pictures that are optimised, coordinates of a physical model."""

    def job(lane):
        model = net()
        train = penalised(lane, model)
        results = []
        for x, y in batches(4):
            x.requires_grad_()
            results += [train(x, y).clone(), x.grad.clone(), str(x.grad.stride())]
            with torch.no_grad():
                x -= 0.1 * x.grad.sign()
            x.grad = None
            results += [train(x, y).clone(), x.grad]
        return results, model

    check_equal(job, service)


def test_a_gradient_that_is_there_already_is_refused_and_the_remedy_helps(service):
    def job(lane, clears=False):
        model = net()
        train = penalised(lane, model)
        x, y = batches(1)[0]
        x.requires_grad_()
        x.grad = torch.ones_like(x)
        if clears:
            x.grad = None
        return train(x, y), x.grad

    check_refused(job, service, "gradient")
    check_equal(lambda lane: job(lane, clears=True), service)


def test_a_gradient_that_leaves_the_step_is_refused_and_the_remedies_help(service):
    def job(lane, remedy=None):
        encoder, head = nn.Linear(8, 8), net()
        first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (encoder, head))
        losses = []
        if remedy == "both":

            @lane.step([encoder, head], [first, second])
            def train(x, y):
                first.zero_grad(), second.zero_grad()
                loss = F.cross_entropy(head(encoder(x)), y)
                loss.backward()
                first.step(), second.step()
                return loss

            losses = [train(x, y) for x, y in batches()]
        else:
            train = lane.train_step(head, F.cross_entropy, second)
            for x, y in batches():
                features = encoder(x)
                losses.append(train(features.detach() if remedy else features, y))
        return losses, encoder, head

    check_refused(job, service, "input 0 requires a gradient", r"laneway.step\(\[a, b\]", "detach")
    check_equal(lambda lane: job(lane, "both"), service)
    check_equal(lambda lane: job(lane, "detach"), service)


@pytest.mark.parametrize("part", ["whole", "row", "transposed"])
def test_a_parameter_as_an_input_is_refused_and_the_remedies_help(part, service):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.table = nn.Linear(8, 6), nn.Parameter(torch.randn(6, 6))

        def forward(self, x, table):
            return self.layer(x) @ table

    parts = {"whole": lambda t: t, "row": lambda t: t[1:5].t(), "transposed": lambda t: t.t()}

    def job(lane, remedy=None):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x, y, *tables):
            optimizer.zero_grad()
            table = parts[part](model.table) if remedy == "through the model" else tables[0]
            loss = F.cross_entropy(model(x, table), y)
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for x, y in batches():
            table = parts[part](model.table)
            table = table.detach() if remedy == "detach" else table
            losses.append(train(x, y) if remedy == "through the model" else train(x, y, table))
        return losses, model

    check_refused(job, service, "'table', a tensor of the model", "through the model")
    check_equal(lambda lane: job(lane, "through the model"), service)
    check_equal(lambda lane: job(lane, "detach"), service)


class Scaled(torch.Tensor):
    """Its linear layers give half of what plain ones do."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 0.5 if function is F.linear else result


class Named(torch.Tensor):
    """A subclass that changes nothing."""


@pytest.mark.parametrize("first", ["plain", "scaled"])
def test_a_class_with_operators_of_its_own_is_refused(first):
    x = torch.linspace(-1, 1, 12).reshape(2, 6)
    model = nn.Linear(6, 4)
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(model, service)
        if first == "plain":
            assert_same(model(x), predict(x))
        for _ in range(2):
            with pytest.raises(laneway.CaptureError, match="is of Scaled, a subclass") as refused:
                predict(x.as_subclass(Scaled))
        assert "as_subclass(torch.Tensor)" in str(refused.value)
        assert_same(model(x), predict(x.as_subclass(Scaled).as_subclass(torch.Tensor)))
        assert_same(model(x), predict(x.as_subclass(Named)))


IMAGE = torch.linspace(-1, 1, 4 * 3 * 9 * 9).reshape(4, 3, 9, 9)
LAYOUTS = {
    "channels-last": lambda own, x: own(x.contiguous(memory_format=torch.channels_last)),
    "transposed": lambda own, x: own(x).transpose(1, 3),
    "expanded": lambda own, x: own(x).mean(0, keepdim=True).expand(5, -1, -1, -1),
    "every second column": lambda own, x: (own(x)[..., ::2], own(x)[:, 1]),
    "windows that overlap": lambda own, x: own(x).unfold(3, 3, 1),
    "empty": lambda own, x: own(x)[:, :0].transpose(1, 2),
    "a number": lambda own, x: own(x).sum(),
    "one of a dimension": lambda own, x: own(x)[:, :1].transpose(1, 3),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("later", [False, True], ids=["call", "submit"])
def test_results_have_eagers_strides(name, later):
    torch.manual_seed(0)
    model = nn.Conv2d(3, 16, 3)
    with laneway.embedded("64MiB") as service, torch.no_grad():
        expected = LAYOUTS[name](model, IMAGE)
        predict = laneway.inference(model, service, closure=LAYOUTS[name])
        for _ in range(2):
            got = predict.submit(IMAGE).result() if later else predict(IMAGE)
            assert_same(expected, got)
            pairs = zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]
            for wanted, result in pairs:
                assert_same(wanted.sum(0), result.sum(0))
                if name != "windows that overlap" and wanted.numel() > 0:
                    ones = [n for n, size in enumerate(wanted.shape) if size <= 1]
                    strides = [
                        [s for n, s in enumerate(t.stride()) if n not in ones]
                        for t in (wanted, result)
                    ]
                    assert strides[0] == strides[1]
