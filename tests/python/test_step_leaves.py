"""What a step leaves outside of its result: tensors in attributes of modules have eager's bits
after each call; what hooks store in containers is refused, and the remedies are tried."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_train_step
from support.both import batches, check_equal, check_refused, net
from support.eager import assert_same
from support.reachable import Reachable


class Attentive(nn.Module):
    """Keeps its last attention in an attribute that is there, its loss in one that is new, a number
    and a tuple."""

    def __init__(self):
        super().__init__()
        self.layer, self.attention, self.seen = nn.Linear(8, 4), None, 0.0

    def forward(self, x):
        out = self.layer(x)
        self.attention = out.detach().softmax(-1)
        self.parts = (out.detach() * 2, {"mean": out.detach().mean(), "rows": len(x)})
        self.auxiliary = out.pow(2).mean()
        self.seen = self.attention.max().item()
        return out


def kept(model):
    return [model.attention, model.parts, model.auxiliary.detach(), model.seen]


@pytest.mark.parametrize("kind", ["step", "inference"])
def test_attributes_have_what_the_last_call_left(kind, service):
    def job(lane):
        model = Attentive()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        results = []
        if kind == "inference":
            run = lane.inference(model)
        else:

            @lane.step(model, optimizer)
            def run(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y) + model.auxiliary
                loss.backward()
                optimizer.step()
                return loss

        for number, (x, y) in enumerate(batches(5)):
            rows = 8 if number % 2 else 5
            given = (x[:rows], y[:rows]) if kind == "step" else (x[:rows],)
            results += [run(*given), *kept(model)]
        return results, model

    check_equal(job, service)


def test_a_call_that_is_not_waited_for_sets_them_when_its_result_is_taken():
    torch.manual_seed(0)
    model = Attentive().eval()
    x = batches(1)[0][0]
    with torch.no_grad():
        model(x)
        expected = kept(model)
        model.attention = model.parts = None
        with laneway.embedded("64MiB") as service:
            future = laneway.inference(model, service).submit(x)
            assert model.attention is None
            future.result()
            assert_same(expected, kept(model))


def test_a_capture_sets_no_attribute():
    model = Attentive()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = batches(1)[0]
    before = Reachable([model, optimizer])
    capture_train_step(model, F.cross_entropy, optimizer, (x, y))
    assert before.differences() == [] and not hasattr(model, "auxiliary")


def test_a_tensor_that_is_carried_over_is_refused_and_a_buffer_carries_it(service):
    class Recurrent(nn.Module):
        def __init__(self, is_buffer):
            super().__init__()
            self.layer = nn.Linear(8, 4)
            if is_buffer:
                self.register_buffer("hidden", torch.zeros(8, 4))
            else:
                self.hidden = torch.zeros(8, 4)

        def forward(self, x):
            out = torch.tanh(self.layer(x) + self.hidden)
            self.hidden = out.detach()
            return out

    def job(lane, is_buffer=False):
        model = Recurrent(is_buffer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.train_step(model, F.cross_entropy, optimizer)
        return [train(x, y) for x, y in batches()], model.hidden

    check_refused(job, service, "'hidden' of a Recurrent", "register a buffer")
    check_equal(lambda lane: job(lane, is_buffer=True), service)


def tensor_hook(model, store):
    model[0].weight.register_hook(lambda g: store.append(g.norm()))


def number_hook(model, store):
    model[0].weight.register_hook(lambda g: store.append(g.norm().item()))


def forward_hook(model, store):
    model[1].register_forward_hook(lambda module, given, out: store.append(out.detach()))


def pre_hook(model, store):
    model[1].register_forward_pre_hook(lambda module, given: store.append(given[0].detach()))


def backward_hook(model, store):
    model[2].register_full_backward_hook(lambda module, left, given: store.append(given[0]))


def accumulated_hook(model, store):
    model[0].bias.register_post_accumulate_grad_hook(lambda p: store.append(p.grad.clone()))


HOOKS = [tensor_hook, number_hook, forward_hook, pre_hook, backward_hook, accumulated_hook]


@pytest.mark.parametrize("register", HOOKS)
def test_what_a_hook_stores_is_refused_and_nothing_of_it_stays(register):
    kept_by_hook, model = ["before"], net()
    register(model, kept_by_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, F.cross_entropy, optimizer, service)
        with pytest.raises(laneway.CaptureError, match="the list store: it stores what the step"):
            step(*batches(1)[0])
    assert kept_by_hook == ["before"]


def test_the_remedy_for_a_hook_returns_what_it_stores(service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x, y):
            norms = []
            hook = model[1].register_forward_hook(lambda module, given, out: norms.append(out))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            hook.remove()
            return loss, [out.norm() for out in norms]

        return [train(x, y) for x, y in batches()], model

    check_equal(job, service)
