"""Shows that a loop around a step reads and writes model and optimizer as around eager code: it
reads the trained weights, and the next iteration uses what it writes."""

from __future__ import annotations

import copy
import io
import pickle
from collections import defaultdict

import pytest
import torch
from torch import nn

from support.eager import assert_same
from support.loop import Loop, batch, body_of


def evaluates(loop):
    for _ in range(4):
        loop.steps(2)
        loop.model.eval()
        with torch.no_grad():
            loop.see(loop.model(torch.ones(4, 8)))
            loop.see(loop.model[3](torch.ones(4, 16)))
        loop.model.train()


def runs_in_training_mode(loop):
    for _ in range(3):  # moves the statistics of the normalisation, and draws
        loop.steps(1)
        loop.see(loop.model(torch.ones(4, 8)).detach())


def reads_everywhere(loop):
    for _ in range(2):
        loop.steps(2)
        loop.see(loop.model.state_dict(), loop.optimizer.state_dict())
        loop.see([p.detach() for p in loop.model.parameters()], loop.model[0].weight.detach())
        loop.see([b for _, b in loop.model.named_buffers()])
        group = loop.optimizer.param_groups[0]
        loop.see([p.norm().detach() for p in group["params"]])
        loop.see([sorted(loop.optimizer.state[p].items()) for p in group["params"]])
        loop.see([p.detach() for p in copy.deepcopy(loop.model).parameters()])
        loop.see(pickle.loads(pickle.dumps(loop.model)).state_dict())
        loop.see(pickle.loads(pickle.dumps(loop.optimizer)).state_dict())
        file = io.BytesIO()
        torch.save(loop.model, file)
        file.seek(0)
        loop.see(torch.load(file, weights_only=False).state_dict())


def writes_weights(loop):
    loop.steps(2)
    for parameter in loop.model.parameters():
        parameter.data.mul_(0.5)  # which torch does not count
    loop.steps(1)
    loop.model.state_dict()["0.weight"].zero_()
    loop.steps(1)
    with torch.no_grad():
        loop.model[0].bias.add_(1)
    loop.model[1].running_mean.fill_(3)
    loop.steps(2)


def writes_optimizer_state(loop):
    loop.steps(2)
    loop.optimizer.state[loop.model[0].weight]["exp_avg"].zero_()
    loop.steps(1)
    loop.optimizer.state.clear()
    loop.steps(2)
    loop.optimizer.state = defaultdict(dict)
    loop.steps(1)
    loop.optimizer.param_groups[0]["lr"] = 0.5
    loop.optimizer.param_groups[0]["weight_decay"] = 0.3
    loop.steps(2)


def loads_a_checkpoint(loop):
    loop.steps(3)
    model = copy.deepcopy(loop.model.state_dict())
    optimizer = copy.deepcopy(loop.optimizer.state_dict())
    loop.steps(3)
    loop.model.load_state_dict(model)
    loop.optimizer.load_state_dict(optimizer)
    loop.steps(3)


def averages(loop):
    average = torch.optim.swa_utils.AveragedModel(loop.model)
    for _ in range(3):
        loop.steps(1)
        average.update_parameters(loop.model)
    loop.see([p.detach() for p in average.parameters()])
    kept = copy.deepcopy(loop.model.state_dict())  # swaps the average in, and out again
    loop.model.load_state_dict(average.module.state_dict())
    loop.model.eval()
    loop.see(loop.model(torch.ones(4, 8)).detach())
    loop.model.train()
    loop.model.load_state_dict(kept)
    loop.steps(2)


def gives_other_memory(loop):
    loop.steps(1)
    vector = nn.utils.parameters_to_vector(loop.model.parameters())
    nn.utils.vector_to_parameters(vector * 0.5, loop.model.parameters())
    loop.steps(3)


def trains_eagerly_in_between(loop):
    eager = body_of(loop.model, loop.optimizer)
    for i in range(6):
        loop.out.append((eager if i in (2, 3) else loop.train)(*batch()).item())
    loop.optimizer.zero_grad()


def replaces_a_layer(loop):
    loop.steps(2)
    old, new = loop.model[3], nn.Linear(16, 4)
    loop.model[3] = new
    loop.optimizer.param_groups[0]["params"][-2:] = [new.weight, new.bias]
    for before, after in ((old.weight, new.weight), (old.bias, new.bias)):
        loop.optimizer.state[after] = loop.optimizer.state.pop(before)
    loop.steps(2)


def changes_the_mode(loop):
    plain = loop.body

    def train(x, y):
        loop.model.train()
        loss = plain(x, y)
        loop.model[1].eval()
        return loss

    loop.train = loop.around(train)
    for _ in range(3):
        loop.model.eval()
        loop.steps(1)
        loop.see([module.training for module in loop.model.modules()])
        loop.see(loop.model(torch.ones(4, 8)).detach())


def schedules(loop):
    scheduler = torch.optim.lr_scheduler.StepLR(loop.optimizer, 2)
    for _ in range(4):
        loop.steps(1)
        scheduler.step()


LOOPS = [
    evaluates,
    runs_in_training_mode,
    reads_everywhere,
    writes_weights,
    writes_optimizer_state,
    loads_a_checkpoint,
    averages,
    gives_other_memory,
    trains_eagerly_in_between,
    replaces_a_layer,
    changes_the_mode,
    schedules,
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_loop_is_that_of_eager_code(service, loop):
    eager, ours = Loop(), None
    loop(eager)
    state = torch.get_rng_state()
    ours = Loop(service)
    loop(ours)
    assert torch.equal(torch.get_rng_state(), state)
    assert_same(ours.out, eager.out)
    assert_same(ours.model.state_dict(), eager.model.state_dict())
    assert_same(ours.optimizer.state_dict(), eager.optimizer.state_dict())
    ours.train.close()
    assert_same(ours.model.state_dict(), eager.model.state_dict())
    assert_same(ours.optimizer.state_dict(), eager.optimizer.state_dict())
