"""What steps read of Python, as people write it: curricula, schedules, registries of losses,
callbacks, containers of settings. Other values between the calls give eager's bits."""

import collections
import dataclasses
import enum
import functools
import operator
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import batches, check_equal, net, trained


class Phase(enum.Enum):
    WARM = 1.0
    MAIN = 0.5


@dataclasses.dataclass(slots=True)
class Curriculum:
    hardest: int = 3
    phase: Phase = Phase.WARM


def curriculum(lane):
    """A dataclass with slots: examples up to a difficulty count."""
    plan = Curriculum()

    def loss_of(model, x, y):
        match plan.phase:
            case Phase.WARM:
                weight = (torch.arange(len(x)) < plan.hardest).float()
            case _:
                weight = torch.ones(len(x))
        return (F.cross_entropy(model(x), y, reduction="none") * weight).sum() * plan.phase.value

    def between(number):
        plan.hardest += 1
        plan.phase = Phase.MAIN if number > 2 else Phase.WARM

    return trained(lane, loss_of, between=between)


def schedule_by_property(lane):
    class Schedule:
        def __init__(self):
            self.epoch, self.table = 0, [1.0, 0.5, 0.25]

        @property
        def beta(self):
            return self.table[min(self.epoch, 2)]

    schedule = Schedule()
    return trained(
        lane,
        lambda model, x, y: F.cross_entropy(model(x), y) * schedule.beta,
        between=lambda number: setattr(schedule, "epoch", number // 2),
    )


def table_changed_in_place(lane):
    """Keep probabilities of stochastic depth, in a list of a list."""
    keep = [[1.0, 0.9], [0.8]]

    def loss_of(model, x, y):
        gate = (torch.rand(len(x), 1) < keep[0][1]).float() / keep[0][1]
        return F.cross_entropy(model[2](model[0](x).relu() * gate) * keep[1][0], y)

    def between(number):
        keep[0][1] -= 0.1
        keep[1][0] = 0.8 if number % 2 else 0.7

    return trained(lane, loss_of, between=between)


def partial_loss(lane):
    loss_fn = functools.partial(F.cross_entropy, label_smoothing=0.0)
    return trained(
        lane,
        lambda model, x, y: loss_fn(model(x), y),
        between=lambda number: loss_fn.keywords.update(label_smoothing=0.1 * (number // 2)),
    )


def registry_of_losses(lane):
    """Terms with weights, one of which is taken out and one added later."""
    terms = collections.OrderedDict(
        plain=(1.0, F.cross_entropy), l2=(0.1, lambda out, y: out.square().mean())
    )

    def between(number):
        if number == 2:
            terms.pop("l2")
        if number == 3:
            terms["l1"] = (0.2, lambda out, y: out.abs().mean())
            terms.move_to_end("plain")

    def loss_of(model, x, y):
        out = model(x)
        return sum(weight * term(out, y) for weight, term in terms.values())

    return trained(lane, loss_of, between=between)


def callbacks_that_change_the_loss(lane):
    callbacks = []

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, loss):
            return loss * self.factor

    def between(number):
        if number == 1:
            callbacks.append(Scale(0.5))
        if number == 3:
            callbacks[0].factor = 0.25

    def loss_of(model, x, y):
        return functools.reduce(
            lambda so_far, call: call(so_far), callbacks, F.cross_entropy(model(x), y)
        )

    return trained(lane, loss_of, between=between)


def class_weights_of_a_loss(lane):
    """The buffer of a loss module is replaced, as balanced weights are."""
    loss_fn = nn.CrossEntropyLoss(weight=torch.ones(4))

    def between(number):
        loss_fn.weight = torch.arange(1.0, 5.0) / (number + 1)
        loss_fn.label_smoothing = 0.1 * (number % 2)

    return trained(lane, lambda model, x, y: loss_fn(model(x), y), between=between)


def momentum_of_batch_norm(lane):
    """Precise statistics: momentum and mode of a normalization change, and a bound is a tuple."""
    norm = nn.BatchNorm1d(16)
    model = net(norm)
    limits = collections.namedtuple("limits", "low high")
    box = {"limits": limits(-1.0, 1.0)}

    def between(number):
        norm.momentum = 1 / (number + 2)
        norm.train(number != 3)
        box["limits"] = limits(-1.0, 1.0 + number // 3)

    def loss_of(model, x, y):
        return F.cross_entropy(model(x).clamp(*box["limits"]), y)

    return trained(lane, loss_of, model, between)


def last_outputs_in_a_deque(lane):
    """Negatives from earlier batches, which the loop puts into a deque."""
    past = collections.deque([torch.zeros(8, 4), torch.ones(8, 4)], maxlen=2)
    model = net()
    predict = lane.inference(model)
    inputs = batches(5)

    def loss_of(model, x, y):
        return F.cross_entropy(model(x) - 0.1 * torch.stack(list(past)).mean(0), y)

    def between(number):
        past.append(predict(inputs[number][0]).detach().clone())

    return trained(lane, loss_of, model, between)


def operators_as_values(lane):
    """What is read is C code: itemgetter, attrgetter, a bound method of a dictionary."""
    config = {"scale": 1.0, "power": 2}
    holder = types.SimpleNamespace(inner=types.SimpleNamespace(rate=0.5))
    scale, rate, power = (
        operator.itemgetter("scale"),
        operator.attrgetter("inner.rate"),
        config.get,
    )

    def loss_of(model, x, y):
        out = model(x) * scale(config) * rate(holder)
        return F.cross_entropy(out, y) + out.abs().pow(power("power")).mean()

    def between(number):
        config["scale"] = 1.0 + number // 2
        holder.inner.rate = 0.5 if number < 3 else 0.75
        config["power"] = 2 if number < 4 else 3

    return trained(lane, loss_of, between=between)


def names_with_dots(lane):
    """attrgetter with a name made of several, and a method by its name."""
    holder = types.SimpleNamespace(inner=types.SimpleNamespace(rate=0.5))
    holder.inner.scaled = lambda loss: loss * 2
    scaled = operator.methodcaller("scaled", 1.0)

    def loss_of(model, x, y):
        rate = operator.attrgetter("inner.rate")(holder)
        return F.cross_entropy(model(x), y) * rate * scaled(holder.inner)

    def between(number):
        holder.inner.rate = 0.5 if number < 2 else 0.75
        if number == 3:
            holder.inner.scaled = lambda loss: loss * 3

    return trained(lane, loss_of, between=between)


def attributes_by_computed_names(lane):
    config = types.SimpleNamespace(rate_0=1.0, rate_1=0.5)
    names = ["rate_0", "rate_1"]

    def loss_of(model, x, y):
        return F.cross_entropy(model(x), y) * sum(getattr(config, name) for name in names)

    def between(number):
        config.rate_1 = 0.5 + number // 2

    return trained(lane, loss_of, between=between)


EQUAL = [
    curriculum,
    schedule_by_property,
    table_changed_in_place,
    partial_loss,
    registry_of_losses,
    callbacks_that_change_the_loss,
    class_weights_of_a_loss,
    momentum_of_batch_norm,
    last_outputs_in_a_deque,
    operators_as_values,
    names_with_dots,
    attributes_by_computed_names,
]


@pytest.mark.parametrize("job", EQUAL, ids=lambda job: job.__name__)
def test_a_loop_gives_eagers_bits(job, service):
    check_equal(job, service)


def test_a_constant_name_is_of_that_attribute_alone(service):
    """What other texts name, a count of the loop here, is not captured."""
    meters, names = types.SimpleNamespace(beta=0.5, loss=0.0), ["loss"]

    def scaled(x):
        return x * getattr(meters, "beta") if hasattr(x, "shape") else x  # noqa: B009

    def loss_of(model, x, y):
        return {name: F.cross_entropy(scaled(model(x)), y) for name in names}["loss"]

    def between(number):
        meters.loss, meters.beta = float(number), 0.5 + number // 2

    lane = check_equal(lambda lane: trained(lane, loss_of, between=between), service)
    assert lane.graphs() == len({number // 2 for number in range(5)})
