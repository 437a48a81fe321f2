"""A model or an optimizer that outgrows its job's image: parameters that begin to train, groups and
buffers that come later, weights that are tied and untied, parametrisations. The step begins another
job with the state of the first, and has eager's bits."""

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import laneway
from support.both import batches, check_equal, check_refused, net
from support.eager import assert_same

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "Adam, amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
}


def transfer():
    body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16))
    return nn.ModuleDict({"body": body, "head": nn.Linear(16, 4)})


@pytest.mark.parametrize("kind", ["at once", "gradually", "there and back", "a group later"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_layers_that_are_unfrozen_later_train(optimizer, kind, service):
    def job(lane):
        model = transfer()
        body, head = model["body"], model["head"]
        body.requires_grad_(False)
        own = head.parameters() if kind == "a group later" else model.parameters()
        opt = OPTIMIZERS[optimizer](own)

        @lane.step(model, opt)
        def train(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(head(body(x)), y)
            loss.backward()
            opt.step()
            return loss

        losses = []
        for number, (x, y) in enumerate(batches(7)):
            if kind != "gradually" and number == 2:
                body.requires_grad_(True)
            if kind == "gradually" and number in (2, 3, 5):
                body[{2: 3, 3: 1, 5: 0}[number]].requires_grad_(True)
            if kind == "there and back" and number in (4, 5):
                body.requires_grad_(number == 5)
            if kind == "a group later" and number == 2:
                opt.add_param_group({"params": list(body.parameters()), "lr": 1e-3})
            losses.append(train(x, y).clone())
        return losses, model, opt

    check_equal(job, service)


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer("shift", None)

    def forward(self, x):
        out = self.layer(x)
        return out if self.shift is None else out + self.shift


@pytest.mark.parametrize("kind", ["step", "inference"])
def test_a_buffer_that_is_set_later_counts(kind, service):
    def job(lane):
        model = Shifted()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = lane.train_step(model, F.cross_entropy, optimizer)
        predict = lane.inference(model)
        results = []
        for number, (x, y) in enumerate(batches(8)):
            if number in (2, 4, 6):
                model.shift = None if number == 4 else torch.arange(4.0) * number
            results.append(step(x, y) if kind == "step" else predict(x))
        return results, model

    check_equal(job, service)


def test_a_new_buffer_and_one_that_is_deleted(service):
    def job(lane):
        model = Shifted()
        model.forward = lambda x: sum(model.buffers(), model.layer(x))
        predict, x = lane.inference(model), batches(1)[0][0]
        results = [predict(x)]
        model.register_buffer("more", torch.ones(4))
        results.append(predict(x))
        model.register_buffer("last", torch.ones(4) / 3)
        results.append(predict(x))
        del model.more
        return [*results, predict(x)]

    check_equal(job, service)


@pytest.mark.parametrize("how", ["attribute", "data", "buffers"])
def test_weights_that_are_tied_and_untied(how, service):
    def job(lane):
        layers = [nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 4)]
        model = nn.Sequential(*layers, nn.BatchNorm1d(4), nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        train = lane.train_step(model, F.cross_entropy, optimizer)
        losses, own, mean = [], model[2].weight, model[4].running_mean
        for number, (x, y) in enumerate(batches(8)):
            if number == 2 and how == "attribute":
                model[2].weight = model[0].weight
            if number == 5 and how == "attribute":
                model[2].weight = own
            if number == 2 and how == "data":
                model[2].weight.data = model[0].weight.data
            if number == 5 and how == "data":
                model[2].weight.data = model[2].weight.data.clone()
            if how == "buffers" and number in (2, 5):
                model[4].running_mean = model[5].running_mean if number == 2 else mean
            losses.append(train(x, y).clone())
        return losses, model, optimizer

    check_equal(job, service)


def test_layers_that_change_places(service):
    def job(lane):
        model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 4))
        optimizer = torch.optim.AdamW(model.parameters())
        train = lane.train_step(model, F.cross_entropy, optimizer)
        losses = []
        for number, (x, y) in enumerate(batches(8)):
            if number in (2, 3, 6):
                first, last = model[0], model[2]
                model[0], model[2] = last, first
            losses.append(train(x, y).clone())
        return losses, model, optimizer

    check_equal(job, service)


PARAMETRISED = {
    "pruned": lambda model: prune.l1_unstructured(model[0], "weight", 0.5),
    "spectrally normed": lambda model: parametrizations.spectral_norm(model[0]),
}


@pytest.mark.parametrize("how", PARAMETRISED)
def test_a_parametrisation_that_comes_later(how, service):
    def job(lane):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        train = lane.train_step(model, F.cross_entropy, optimizer)
        losses = []
        for number, (x, y) in enumerate(batches(5)):
            if number == 2:
                PARAMETRISED[how](model)
            losses.append(train(x, y).clone())
        return losses, model, optimizer

    check_equal(job, service)


def test_an_inference_of_the_step_follows_to_the_other_job(service):
    def job(lane):
        model = transfer()
        model["body"].requires_grad_(False)
        model.forward = lambda x: model["head"](model["body"](x))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        step = lane.train_step(model, F.cross_entropy, optimizer)
        predict, results = None, []
        for number, (x, y) in enumerate(batches(5)):
            if number == 2:
                model["body"].requires_grad_(True)
            results.append(step(x, y).clone())
            if predict is None:
                predict = lane.inference(model if lane.is_eager else step)
            results.append(predict(x))
        return results, model, optimizer

    check_equal(job, service)


def test_the_scaler_and_the_kept_gradients_go_along(service):
    def job(lane):
        model = transfer()
        model["body"].requires_grad_(False)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

        @lane.step(model, optimizer)
        def train(x, y, last):
            loss = F.cross_entropy(model["head"](model["body"](x)), y)
            scaler.scale(loss).backward()
            seen = model["head"].weight.grad.norm()
            if last:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            return loss, seen

        results = []
        for number, (x, y) in enumerate(batches(8)):
            if number == 3:  # between two micro-batches
                model["body"].requires_grad_(True)
            results.append(train(x, y, number % 2 == 1))
        return results, model

    check_equal(job, service)


def test_where_others_may_have_the_job_it_is_refused_and_a_new_step_goes_on():
    torch.manual_seed(0)
    model = transfer()
    model["body"].requires_grad_(False)
    model.forward = lambda x: model["head"](model["body"](x))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with laneway.embedded("64MiB") as service:
        given = (model, F.cross_entropy, optimizer, service)
        step = laneway.train_step(*given, shared=True)
        step(*batches(1)[0])
        model["body"].requires_grad_(True)
        with pytest.raises(laneway.CaptureError, match=r"no place in the job's image.*a new step"):
            step(*batches(1)[0])
        step.close()
        expected = F.cross_entropy(model(batches(1)[0][0]), batches(1)[0][1])
        with contextlib.closing(laneway.train_step(*given)) as another:
            assert_same(expected.detach(), another(*batches(1)[0]))


def test_parameters_that_were_replaced_under_an_optimizer_are_named(service):
    def job(lane, renews=False):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.train_step(model, F.cross_entropy, optimizer)
        first = {name: t.clone() for name, t in model.state_dict().items()}
        losses = []
        for number, (x, y) in enumerate(batches()):
            if number == 3:
                model.load_state_dict(first, assign=not renews)
            losses.append(train(x, y).clone())
        return losses, model

    check_refused(
        job, service, "4 of the 4 parameters of the optimizers are none of the model's", "assign"
    )
    check_equal(lambda lane: job(lane, renews=True), service)
