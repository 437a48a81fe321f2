"""Loops of the kinds that people write, whose steps change what is outside of them: averages,
adapters, gradient surgery, replay buffers, meters, hooks. Each gives eager's bits, or is refused
before anything is changed, in words that name what it is."""

import collections
import copy
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from support.both import batches, check_equal, check_refused, net, sgd, trained


def average_with_a_warm_up(lane):
    """A teacher beside the step whose momentum depends on a counter of the loop's."""
    student, teacher = net(), net().requires_grad_(False)
    state = types.SimpleNamespace(updates=0)

    @torch.no_grad()
    def update(loss):
        decay = min(0.99, (1 + state.updates) / (10 + state.updates))
        for mine, theirs in zip(teacher.parameters(), student.parameters()):
            mine.lerp_(theirs, 1 - decay)

    def loss_of(model, x, y):
        out = model(x)
        return F.cross_entropy(out, y) + F.mse_loss(out, teacher(x))

    losses, model = trained(
        lane, loss_of, student, lambda number: setattr(state, "updates", number), after=update
    )
    return losses, model, teacher


def distilled(lane):
    """A teacher whose temperature and weights the loop changes, each in its own way."""

    class Teacher:
        def __init__(self):
            self.net, self.temperature = net().requires_grad_(False), 4.0

        def __call__(self, x):
            return (self.net(x) / self.temperature).softmax(-1)

    teacher = Teacher()

    def between(number):
        teacher.temperature = max(1.0, 4.0 - number)
        if number == 2:
            teacher.net[0].weight.data.mul_(0.5)
        if number == 3:
            teacher.net = copy.deepcopy(teacher.net)
            teacher.net[2].bias.fill_(0.1)

    return trained(lane, lambda model, x, y: F.cross_entropy(model(x), teacher(x)), between=between)


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.is_merged = base.requires_grad_(False), False
        self.down = nn.Parameter(torch.randn(2, base.in_features) * 0.1)
        self.up = nn.Parameter(torch.ones(base.out_features, 2) * 0.1)

    def forward(self, x):
        out = self.base(x)
        return out if self.is_merged else out + x @ self.down.t() @ self.up.t()


def adapters_put_in_later(lane):
    model = net()
    optimizer = sgd(model)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for number, batch in enumerate(batches(6)):
        if number == 2:
            torch.manual_seed(3)
            model[0] = Adapted(model[0])
            optimizer.add_param_group({"params": [model[0].down, model[0].up], "lr": 0.05})
        losses.append(train(*batch))
    return losses, model


def adapters_merged_for_evaluation(lane):
    torch.manual_seed(2)
    model = nn.Sequential(Adapted(nn.Linear(8, 16)), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    train = lane.train_step(model, F.cross_entropy, optimizer)
    predict, seen = lane.inference(model), []
    for x, y in batches(3):
        seen.append(train(x, y))
        layer = model[0]
        with torch.no_grad():
            layer.base.weight += layer.up @ layer.down
            layer.is_merged = True
            seen.append(predict(x))
            layer.base.weight -= layer.up @ layer.down
            layer.is_merged = False
        seen.append(predict(x))
    return seen, model


def gradient_surgery(lane):
    """Two tasks; of conflicting gradients the part against the other one is taken out."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    weights = {"second": 1.0}

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        out, parameters = model(x), list(model.parameters())
        tasks = [F.cross_entropy(out, y), weights["second"] * out.square().mean()]
        flat = [
            torch.cat([g.flatten() for g in torch.autograd.grad(t, parameters, retain_graph=True)])
            for t in tasks
        ]
        dot = flat[0] @ flat[1]
        against = torch.clamp(dot, max=0) / (flat[1] @ flat[1] + 1e-12)
        joined, at = flat[0] - against * flat[1] + flat[1], 0
        for parameter in parameters:
            parameter.grad = joined[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        optimizer.step()
        return sum(tasks)

    losses = []
    for number, batch in enumerate(batches(5)):
        weights["second"] = 1.0 + number // 2
        losses.append(train(*batch))
    return losses, model


class Replay:
    def __init__(self, size):
        self.states, self.rewards = torch.zeros(size, 8), torch.zeros(size, 4)
        self.at = self.filled = 0

    def put(self, state, reward):
        self.states[self.at], self.rewards[self.at] = state, reward
        self.at = (self.at + 1) % len(self.states)
        self.filled = min(self.filled + 1, len(self.states))


def replay_buffer(lane):
    """The step draws from what the buffer has so far, against a target moved now and then."""
    buffer, model, target = Replay(6), net(), net().requires_grad_(False)
    target.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @lane.step(model, optimizer)
    def learn():
        chosen = torch.randint(0, buffer.filled, (5,))
        states, rewards = buffer.states[chosen], buffer.rewards[chosen]
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(states), rewards + 0.9 * target(states))
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for number in range(10):
        buffer.put(torch.full((8,), number / 4), torch.full((4,), 1.0 - number))
        losses.append(learn())
        if number % 4 == 3:
            target.load_state_dict(model.state_dict())
    return losses, model, target


def priorities(lane):
    """Examples are drawn by priorities, which the step itself writes."""
    table, wanted, priority = torch.randn(12, 8), torch.randint(0, 4, (12,)), torch.ones(12)

    def loss_of(model, x, y):
        chosen = torch.multinomial(priority, 6)
        each = F.cross_entropy(model(table[chosen]), wanted[chosen], reduction="none")
        with torch.no_grad():
            priority[chosen] = each + 0.01
        return each.mean()

    def between(number):
        if number == 3:
            priority.fill_(1.0)

    return *trained(lane, loss_of, between=between), priority


def confusion_matrix(lane):
    """A meter of tensors outside, written in place, and taken anew by the loop."""
    counts = torch.zeros(4, 4)
    meter = types.SimpleNamespace(total=torch.zeros(()), seen=0)

    def loss_of(model, x, y):
        out = model(x)
        counts.index_put_((y, out.argmax(1)), torch.ones(len(y)), accumulate=True)
        return F.cross_entropy(out, y)

    def between(number):
        meter.seen += 8
        if number == 2:
            counts.zero_()

    def after(loss):
        meter.total += loss.detach()

    return *trained(lane, loss_of, between=between, after=after), counts, meter.total


def features_by_hooks(lane):
    """Hooks write norms into tensors beside the model; one hook goes after some iterations."""
    model, norms = net(), torch.zeros(3)

    def noting(at):
        def hook(module, given, out):
            norms[at] = out.detach().norm()

        return hook

    hooks = [model[at].register_forward_hook(noting(at)) for at in range(3)]

    def between(number):
        if number == 3:
            hooks[1].remove()

    def loss_of(model, x, y):
        return F.cross_entropy(model(x), y)

    return *trained(lane, loss_of, model, between), norms


def orthogonal_then_plain(lane):
    model = net()
    parametrizations.weight_norm(model[0])
    train_of = trained(lane, lambda model, x, y: F.cross_entropy(model(x), y), model)
    nn.utils.parametrize.remove_parametrizations(model[0], "weight")
    return train_of[0], trained(lane, lambda model, x, y: F.cross_entropy(model(x), y), model)


EQUAL = [
    average_with_a_warm_up,
    distilled,
    adapters_put_in_later,
    adapters_merged_for_evaluation,
    gradient_surgery,
    replay_buffer,
    priorities,
    confusion_matrix,
    features_by_hooks,
    orthogonal_then_plain,
]


@pytest.mark.parametrize("job", EQUAL, ids=lambda job: job.__name__)
def test_a_loop_gives_eagers_bits(job, service):
    check_equal(job, service)


def running_mean(lane):
    meter = types.SimpleNamespace(mean=torch.zeros(()))
    keep = lambda loss: setattr(meter, "mean", 0.9 * meter.mean + 0.1 * loss.detach())  # noqa: E731
    return *trained(lane, lambda m, x, y: F.cross_entropy(m(x), y), after=keep), meter.mean


def micro_batches(lane):
    state = types.SimpleNamespace(micro=0)

    def loss_of(model, x, y):
        state.micro = (state.micro + 1) % 2
        return F.cross_entropy(model(x), y) * (1.0 if state.micro else 0.5)

    return trained(lane, loss_of)


def activations_in_lists(lane):
    model, kept = net(), collections.defaultdict(list)
    model[0].register_forward_hook(lambda module, given, out: kept["0"].append(out.norm()))
    return trained(lane, lambda model, x, y: F.cross_entropy(model(x), y), model)


def coroutine_of_a_schedule(lane):
    def schedule():
        factor = 1.0
        while True:
            factor *= (yield factor) or 0.9

    running = schedule()
    next(running)
    return trained(lane, lambda m, x, y: F.cross_entropy(m(x), y) * running.send(0.5))


def best_so_far(lane):
    """Early stopping inside the step: the least loss, by Python's min."""
    state = {"best": 1e9}

    def after(loss):
        state["best"] = min(state["best"], loss.item())

    return trained(lane, lambda m, x, y: F.cross_entropy(m(x), y), after=after)


def log_variances_in_a_list(lane):
    """Weights of tasks that are trained, in no module."""
    model, weights = net(), [torch.zeros((), requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD([*model.parameters(), *weights], lr=0.1)

    @lane.step(model, optimizer)
    def train(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y) * weights[0].exp() + out.square().mean() * weights[1].exp()
        loss.backward()
        optimizer.step()
        return loss

    return [train(*batch) for batch in batches(2)]


REFUSED = {
    running_mean: "the attribute 'mean' of meter",
    micro_batches: "the attribute 'micro' of state .*again in each iteration",
    activations_in_lists: "kept",
    coroutine_of_a_schedule: "running",
    best_so_far: "only known when it runs|state",
    log_variances_in_a_list: "ParameterDict",
}


@pytest.mark.parametrize("job", REFUSED, ids=lambda job: job.__name__)
def test_a_loop_is_refused_by_name(job, service):
    check_refused(job, service, REFUSED[job])
