"""What a graph may ask of a worker beside the pool: threads, and the memory of resolved graphs, of
one user together. What is refused was not made, and what was let in comes back after any death."""

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import Refused
from support.daemon import Lanewayd

BATCH = torch.arange(32.0).reshape(4, 8)
MANY = 40  # graphs; far fewer fit


def step_of(service, layers):
    """Of another graph for each number of layers."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return laneway.train_step(model, nn.functional.mse_loss, optimizer, service)


def iterate(step):
    """Of one line, which a graph has in it: so those of equal steps are equal."""
    step(BATCH, BATCH)


@pytest.fixture
def own_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_graph_of_more_threads_is_refused_and_never_run_with_fewer(own_threads):
    with Lanewayd("--max-threads", "2", "--standby", "0") as daemon, daemon.connect() as service:
        torch.set_num_threads(3)
        refused = step_of(service, 1)
        with pytest.raises(Refused) as error:
            refused(BATCH, BATCH)
        for part in ("captured with 3 threads", "set_num_threads(2)", "--max-threads 3"):
            assert part in str(error.value)
        assert service.status()["jobs"] == []
        torch.set_num_threads(2)
        with step_of(service, 1) as step:
            step(BATCH, BATCH)
            torch.set_num_threads(3)
            with pytest.raises(Refused, match="captured with 3 threads"):
                step(BATCH[:2], BATCH[:2])  # another graph of the same job
            torch.set_num_threads(2)
            step(BATCH, BATCH)


def test_resolved_graphs_of_a_user_are_bounded_equal_ones_once():
    words = ("--graph-memory", "4MiB", "--standby", "0")
    with Lanewayd(*words) as daemon, daemon.connect() as service:
        steps, error = [], None
        for layers in range(1, MANY):
            step = step_of(service, layers)
            try:
                iterate(step)
            except Refused as refused:
                error = str(refused)
                break
            steps.append(step)
        assert steps and error is not None
        for part in ("resolved graphs of user", "the limit is 2 MiB", "--graph-memory"):
            assert part in error
        with step_of(service, len(steps)) as equal:  # of the last one that fitted
            iterate(equal)
        # Who was let in comes back, whatever the order.
        daemon.kill(daemon.active_worker())
        for step in reversed(steps):
            iterate(step)
        with pytest.raises(Refused, match="resolved graphs"):
            iterate(step_of(service, len(steps) + 1))
        for step in steps:
            step.close()
        with step_of(service, len(steps) + 1) as fits:
            iterate(fits)
