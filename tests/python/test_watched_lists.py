"""The list of a group's parameters, while they live in a job: whoever reads it gets tensors that
are up to date, C code too, and it is a list in all that it does."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional as F

import laneway
from laneway.jobs.watch.watched import WatchedList
from support.both import batches, check_equal, net


def _foreach(average, parameters):
    torch._foreach_lerp_(average, parameters, 0.5)
    return [*torch._foreach_norm(parameters), *torch._foreach_mul(self=parameters, scalar=2.0)]


# Each takes the averages so far and group["params"], and gives tensors.
READS = {
    "foreach": _foreach,
    "foreach, copied into": lambda average, own: torch._foreach_copy_(average, own),
    "foreach of two": lambda average, own: torch._foreach_add(own, own),
    "through torch.ops": lambda average, own: torch.ops.aten._foreach_neg(list(own)),
    "flattened in C": lambda average, own: [torch._C._nn.flatten_dense_tensors(own)],
    "written in C": lambda average, own: torch._foreach_mul_(own, 0.5),
    "unpacked": lambda average, own: [*own],
    "a slice": lambda average, own: own[1:],
    "gradients of autograd": lambda average, own: torch.autograd.grad(
        sum((p**2).sum() for p in own), own
    ),
    "vector": lambda average, own: [torch.nn.utils.parameters_to_vector(own)],
    "assigned to a slice": lambda average, own: average.__setitem__(slice(None), own) or average,
    "extended": lambda average, own: [].__iadd__(own),
    "a tuple": lambda average, own: tuple(own),
}


@pytest.mark.parametrize("read", READS)
def test_who_reads_the_list_gets_what_the_job_has(read, service):
    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        average = [p.detach().clone() for p in model.parameters()]
        train, seen = lane.train_step(model, F.cross_entropy, optimizer), []
        for x, y in batches(4):
            seen.append(train(x, y))
            with torch.set_grad_enabled(read == "gradients of autograd"):
                made = READS[read](average, optimizer.param_groups[0]["params"]) or average
            seen += [part.detach().clone() for part in made]
        return [*seen, *(p.detach().clone() for p in model.parameters())]

    check_equal(job, service)


@pytest.fixture
def watched():
    """An optimizer's list of parameters while a job trains them, and the parameters."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parameters = list(model.parameters())
    with laneway.embedded("256MiB") as service:
        train = laneway.train_step(model, F.cross_entropy, optimizer, service=service)
        train(*batches(1)[0])
        own = optimizer.param_groups[0]["params"]
        assert type(own) is WatchedList
        yield own, parameters


def test_it_is_a_list_in_what_it_says(watched):
    own, parameters = watched
    assert len(own) == len(parameters) and bool(own)
    assert [a is b for a, b in zip(own, parameters, strict=True)] == [True] * len(own)
    assert own[0] in own and own[-1] is parameters[-1] and own.index(own[0]) == 0
    assert own[:1].count(own[0]) == own.__class__([own[0]]).count(own[0]) == 1
    assert repr(own) == repr(parameters)
    assert own <= parameters and parameters >= own and not own < parameters and not own > own
    assert own < [*parameters, own[0]] and [*parameters, own[0]] > own
    assert isinstance(own, list) and type(own.copy()) is list
    for made in (copy.copy(own), copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert type(made) is list and torch.equal(made[0], parameters[0])


def test_it_is_a_list_in_what_it_does(watched):
    """Each change is made to a plain list too, and the memory that C code sees has as many parts as
    the list, none of them a tensor."""
    own, plain = watched
    more = [torch.nn.Parameter(torch.zeros(2)) for _ in range(4)]
    changes = [
        lambda held: held.append(more[0]),
        lambda held: held.extend(more[1:3]),
        lambda held: held.insert(1, more[3]),
        lambda held: held.pop(),
        lambda held: held.reverse(),
        lambda held: held.__setitem__(0, more[1]),
        lambda held: held.__setitem__(slice(1, 2), more),
        lambda held: held.__delitem__(0),
        lambda held: held.sort(key=id),
        lambda held: held.__iadd__(more[:1]),
        lambda held: held.__imul__(2),
        lambda held: held.clear(),
    ]
    for change in changes:
        change(own)
        change(plain)
        assert list(map(id, own)) == list(map(id, plain))
        assert list.__len__(own) == len(plain)
        assert not any(isinstance(part, torch.Tensor) for part in list.__iter__(own))


def test_other_c_code_fails_loudly(watched):
    """What goes past torch's way of asking has stand-ins, which say what they are."""
    own, _ = watched
    taken = list.copy(own)
    for use in (torch._foreach_norm, lambda held: held[0].grad, lambda held: hasattr(held[0], "d")):
        with pytest.raises(laneway.Error, match=r"list\(group\['params'\]\)"):
            use(taken)
    assert "of a Laneway step" in repr(taken[0])
