"""OpenMP teams of a worker's lanes: of two lanes that compute in turn only one keeps a team, so
that barriers do not become sleeps (test_process_teams has the threads of a client's process)."""

import contextlib
import os
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from support.crowd import lines
from support.daemon import Lanewayd

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one processor: no two threads compute at once"
)

# libgomp waits without sleeping for as long as its threads do not outnumber the processors.
SPINNING = {"GOMP_SPINCOUNT": "1000000000"}
# A thread of a team sleeps some 70 times a step if its barriers sleep.
MANY = 30
STEPS = 3
ROUNDS = 6


@contextlib.contextmanager
def on_two_processors():
    """What is started within has two; a team of two threads is then all that fits."""
    allowed, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, sorted(allowed)[:2])
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, allowed)


def training(service, name):
    torch.manual_seed(0)
    layers = []
    for _ in range(3):
        layers += [nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU()]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    return laneway.train_step(model, nn.MSELoss(), optimizer, service=service, name=name)


def sleeps(worker):
    """Voluntary context switches of the threads of its lanes, teams included."""
    counts = {}
    for task in Path(f"/proc/{worker}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
            if (task / "comm").read_text().startswith("lane-"):
                status = (task / "status").read_text().splitlines()
                counts[task.name] = next(int(s.split()[1]) for s in status if s[:9] == "voluntary")
    return counts


def sleeps_of(worker, step):
    """Of each of its next calls; the first one finds the other lane's team still there."""
    step()
    before = sleeps(worker)
    for _ in range(STEPS):
        step()
    return sum(count - before.get(task, 0) for task, count in sleeps(worker).items()) / STEPS


def test_lanes_that_compute_in_turn_do_not_sleep_at_barriers():
    x, y = torch.randn(256, 256), torch.randn(256, 256)
    with (
        on_two_processors(),
        Lanewayd("--standby", "0", "--lanes", "2", environment=SPINNING) as daemon,
        daemon.connect() as service,
    ):
        steps = [training(service, name) for name in ("one", "two")]
        for step in steps:
            step.prepare(x, y)
        assert len({line["lane"] for line in lines(service).values()}) == 2
        worker = daemon.active_worker()
        # The best of the rounds: on a busy machine it takes a while until a team is ended.
        rounds = [[sleeps_of(worker, lambda s=s: s(x, y)) for s in steps] for _ in range(ROUNDS)]
        assert all(min(of) < MANY for of in zip(*rounds, strict=True)), rounds
