"""What a step installs in its modules happens as in eager: hooks, children, and the flags beside
them. What holds a tensor of the step is refused."""

import collections

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, check_refused, net


class Installing(nn.Module):
    """Doubles its output by a hook that its first forward installs."""

    def __init__(self, keeps: bool = False) -> None:
        super().__init__()
        self.inner, self.keeps, self.is_ready = net(), keeps, False

    def forward(self, x):
        if not self.is_ready:
            self.is_ready = True
            kept = x.mean() if self.keeps else 2.0
            self.inner.register_forward_hook(lambda module, given, out: out * kept)
            self.inner[0].register_full_backward_hook(lambda module, left, given: None)
            self.inner.add_module("note", nn.Identity())
        return self.inner(x)


def trained(lane, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = lane.train_step(model, F.cross_entropy, optimizer)
    losses = [train(x, y) for x, y in batches(4)]
    hooks = [len(module._forward_hooks) for module in model.modules()]
    return losses, model, hooks, model.is_ready, list(dict(model.named_modules()))


def test_hooks_that_a_step_installs_are_there_with_their_flag(service):
    """The graphs behind the first see the flag, and the hook with it."""
    assert check_equal(lambda lane: trained(lane, Installing()), service).graphs() == 2


def test_a_hook_that_holds_a_tensor_of_the_step_is_refused(service):
    model = Installing(keeps=True)
    said = check_refused(lambda lane: trained(lane, Installing(keeps=True)), service, "installs")
    assert "'_forward_hooks' of" in said
    with pytest.raises(laneway.CaptureError):
        laneway.inference(model, service)(batches(1)[0][0])
    assert not model.inner._forward_hooks and not model.is_ready


def test_a_hook_that_each_step_installs_again_is_refused(service):
    def job(lane):
        model = net()

        def loss_of(out, y):
            model[0].register_forward_hook(lambda module, given, out: out * 1.5)
            return F.cross_entropy(out, y)

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.train_step(model, loss_of, optimizer)
        return [train(x, y) for x, y in batches(2)]

    check_refused(job, service, "'_forward_hooks' of .*does so again in each iteration")


@pytest.mark.parametrize("again", [True, False])
def test_a_hook_that_a_step_installs_in_its_optimizer(again, service):
    def job(lane):
        model, calls = net(), {"made": False}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def halve(own, args, kwargs):
            for parameter in own.param_groups[0]["params"]:
                parameter.grad.mul_(0.5)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if again or not calls["made"]:
                calls["made"] = True
                optimizer.register_step_pre_hook(halve)
            optimizer.step()
            return loss

        losses = [train(x, y) for x, y in batches(4)]
        return losses, model, len(optimizer._optimizer_step_pre_hooks)

    if again:
        check_refused(job, service, "'_optimizer_step_pre_hooks' of a SGD: it does so again")
    else:
        check_equal(job, service)


def test_an_ordered_dictionary_keeps_its_order(service):
    """One that a step changes is put back, and changed, by its own methods."""

    def job(lane):
        seen = collections.OrderedDict([("first", 1), ("second", 2)])
        seen.move_to_end("first")
        model, found = net(), []

        def forward(x):
            seen.setdefault("rows", len(x))
            return nn.Sequential.forward(model, x) * seen["second"]

        model.forward = forward
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.train_step(model, F.cross_entropy, optimizer)
        for x, y in batches(3):
            found += [train(x, y), list(seen.items()), list(reversed(seen))]
        return found

    check_equal(job, service)


def test_a_dictionary_by_parameters_has_what_the_step_puts_there_refused(service):
    def job(lane):
        model = net()
        norms = {parameter: None for parameter in model.parameters()}

        def hook(parameter):
            norms[parameter] = parameter.grad.norm()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train = lane.train_step(model, F.cross_entropy, optimizer)
        return [train(x, y) for x, y in batches(2)]

    check_refused(job, service, "the dict norms: it stores what the step computes")
