"""No write is lost: what a step writes into the tensors that it is given is there when the call
returns, in all three interfaces, as eager execution leaves it; where that cannot be, it is said."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import laneway
from laneway.capture import border
from laneway.errors import InvalidInput
from support.compiled import compare, compiled, eager_reasons, own_service, running  # noqa: F401
from support.eager import assert_same

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def in_place(x):
    x.add_(1)
    return x * 2


def returns_it(x, y):
    x.mul_(y)
    return x, x[1:], y + 1


def through_a_view(x):
    x[1:].neg_()
    x.t()[0].zero_()
    return x.sum()


def through_data(x):
    x.data.add_(1)
    return x * 2


def foreach(now, then):
    torch._foreach_add_(now, then)
    return now[0] + 1


def fused(parameter, gradient):
    torch._fused_sgd_(
        [parameter],
        [gradient],
        [],
        lr=0.1,
        weight_decay=0.0,
        momentum=0.0,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )
    return parameter.sum()


def statistics(x, mean, variance):
    return functional.batch_norm(x, mean, variance, training=True)


def setitem(x, y):
    x[0] = y[0]
    x[x > 0.5] = 0.0
    return x.clone()


def only_writes(x):
    x.zero_()


CALLS = {
    "in place": (in_place, lambda: (X.clone(),)),
    "transposed": (in_place, lambda: (X.t().clone(memory_format=torch.preserve_format),)),
    "a slice": (in_place, lambda: (torch.arange(24.0).reshape(6, 4)[1:4],)),
    "not dense": (in_place, lambda: (torch.arange(24.0).reshape(6, 4)[::2],)),
    "every other column": (in_place, lambda: (torch.arange(24.0).reshape(3, 8)[:, ::2],)),
    "a slice through a view": (through_a_view, lambda: (torch.arange(24.0).reshape(4, 6)[:, 1:5],)),
    "returned": (returns_it, lambda: (X.clone(), X + 2)),
    "through a view": (through_a_view, lambda: (X.clone(),)),
    "through .data": (through_data, lambda: (X.clone(),)),
    "foreach": (foreach, lambda: ([X.clone(), X[0].clone()], [X + 1, X[1] + 1])),
    "fused": (fused, lambda: (X.clone(), X + 1)),
    "batch norm's statistics": (statistics, lambda: (X + 3, torch.zeros(4), torch.ones(4))),
    "set item": (setitem, lambda: (X.clone(), X + 1)),
    "nothing else": (only_writes, lambda: (X.clone(),)),
    "integers": (in_place, lambda: (torch.arange(6),)),
    "complex": (in_place, lambda: (torch.complex(X, X),)),
    "no elements": (in_place, lambda: (torch.zeros(0, 3),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_compiled_code_writes_is_there(name):
    code, call = CALLS[name]
    with torch.no_grad():
        compare(code, [call(), call(), call()])
    assert eager_reasons() == []


@pytest.mark.parametrize("name", CALLS)
def test_what_an_inference_writes_is_there(name):
    code, call = CALLS[name]

    class Model(nn.Module):
        def forward(self, *args):
            return code(*args)

    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(Model(), service)
        for _ in range(3):
            given = call()
            twins = copy.deepcopy(given)
            assert_same(code(*twins), predict(*given))
            assert_same(list(twins), list(given))


def test_what_a_training_step_writes_is_there():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(4, 2)

        def forward(self, x):
            return self.linear(functional.relu(x, inplace=True))

    def loss_fn(y, labels):
        labels.masked_fill_(labels > 1, 0)
        return functional.cross_entropy(y, labels)

    model, twin = Model(), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, loss_fn, optimizer, service)
        for _ in range(3):
            x, labels = X.clone(), torch.tensor([0, 1, 5])
            x2, labels2 = x.clone(), labels.clone()
            twins.zero_grad()
            loss = loss_fn(twin(x2), labels2)
            loss.backward()
            twins.step()
            assert_same(loss, step(x, labels))
            assert_same([x2, labels2], [x, labels])
        assert_same(twin.state_dict(), step.state_dict()["model"])


def test_plain_attributes_of_compiled_models_are_written():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.var = torch.zeros(4), torch.ones(4)

        def forward(self, x):
            return functional.batch_norm(x, self.mean, self.var, training=True)

    model, twin = Model(), Model()
    with torch.no_grad():
        made = compiled(model)
        for shift in range(3):
            assert_same(twin(X + shift), made(X + shift))
            assert_same([twin.mean, twin.var], [model.mean, model.var])
    assert eager_reasons() == [] and len(running()) == 1


def adds(x, y):
    x.add_(1)
    return y * 2


ALIASES = {
    "the same tensor twice": lambda m: (m, m),
    "overlapping slices": lambda m: (m[:4], m[2:]),
    "a view": lambda m: (m[2:5], m),
}


@pytest.mark.parametrize("name", ALIASES)
def test_writes_through_two_aliases_are_eagers_or_refused(name):
    class Model(nn.Module):
        def forward(self, x, y):
            return adds(x, y)

    memory, twin = torch.arange(6.0), torch.arange(6.0)
    expected = adds(*ALIASES[name](twin))
    with torch.no_grad():
        assert_same(expected, compiled(adds)(*ALIASES[name](memory)))
    assert_same(twin, memory)
    memory = torch.arange(6.0)
    with laneway.embedded("64MiB") as service, pytest.raises(InvalidInput) as refused:
        laneway.inference(Model(), service)(*ALIASES[name](memory))
    assert "shares memory with another argument" in str(refused.value)
    assert "clone()" in str(refused.value)
    assert_same(memory, torch.arange(6.0))


def test_aliases_that_come_later_are_seen_too():
    with torch.no_grad():
        made = compiled(adds)
        for make in (lambda m: (m[:3], m[3:]), *ALIASES.values(), lambda m: (m[:3], m[3:])):
            memory, twin = torch.arange(6.0), torch.arange(6.0)
            assert_same(adds(*make(twin)), made(*make(memory)))
            assert_same(twin, memory)


def test_a_write_into_a_view_of_a_weight_is_eagers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            x.add_(1)
            return self.weight * x

    model, twin = Model(), Model()
    with torch.no_grad():
        made = compiled(model)
        for _ in range(3):
            assert_same(twin(twin.weight[:1]), made(model.weight[:1]))
            assert_same(twin.weight.detach(), model.weight.detach())


def test_an_argument_in_another_layout_than_the_jobs_is_written_once(monkeypatch):
    """The job wrote it, the result, a view of it, could not be put together, and eager execution
    wrote it again."""
    monkeypatch.setattr(border, "_MOST_GAPS", 64)

    def code(x):
        x.add_(1)
        return x[1:]

    with torch.no_grad():
        made = compiled(code)
        for _ in range(2):
            memory, twin = torch.zeros(8, 64), torch.zeros(8, 64)
            assert_same(code(twin[:, 5]), made(memory[:, 5]))
            assert_same(twin, memory)


def test_an_expanded_tensor_beside_a_written_one_changes_nothing():
    with torch.no_grad():
        compare(adds, [(X.clone(), torch.ones(1, 4).expand(3, 4))] * 2)
    assert eager_reasons() == [] and len(running()) == 1


def test_an_expanded_tensor_is_not_written():
    class Model(nn.Module):
        def forward(self, x):
            return in_place(x)

    x = torch.zeros(1, 4).expand(3, 4)
    with laneway.embedded("64MiB") as service, pytest.raises(InvalidInput) as refused:
        laneway.inference(Model(), service)(x)
    assert "several elements at one place" in str(refused.value)
    with torch.no_grad(), pytest.raises(RuntimeError, match="more than one element"):
        compiled(in_place)(x)


def test_submit_says_that_it_writes_into_copies():
    class Model(nn.Module):
        def forward(self, x):
            return in_place(x)

    x = X.clone()
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Model(), service)
        with pytest.warns(RuntimeWarning, match="submit\\(\\) works on copies"):
            future = predict.submit(x)
        assert_same(in_place(X.clone()), future.result())
        assert_same(X, x)
