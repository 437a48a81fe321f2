"""Images of two Linux users that take turns in one range of the pool, and of clients who ask for
one job at the same time: each computes with its own bytes, and nobody reads another's."""

import itertools
import re
import subprocess
import threading

import pytest
import torch
from torch import nn

import laneway
from support.crowd import lines
from support.daemon import Lanewayd, program, wait_until
from support.users import NOBODY, as_user, can_be_another

LAYERS, WIDTH = 8, 768  # 18 MiB
POOL = "32MiB"  # for one of them
MARK = 7.25  # of which one user's weights are made


def deep(seed):
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.Parameter(torch.full((18 << 18,), MARK))

    def forward(self, inputs):
        return self.values.sum() + inputs


class Looks(nn.Module):
    """Gives back what lies in memory that nobody wrote."""

    def forward(self, inputs):
        return inputs.new_empty(20 << 18)


@torch.no_grad()
@pytest.mark.skipif(not can_be_another(), reason="only root can be another user")
@pytest.mark.parametrize("prefix", ["none", "50%"])
def test_two_users_models_through_one_range(prefix):
    words = ("--staging", "128MiB", "--prefix", prefix)
    with Lanewayd(*words, pool=POOL) as running, running.connect() as mine:
        with as_user(NOBODY):
            theirs = running.connect()
        with theirs:
            inputs = torch.randn(4, WIDTH)
            answers = {}
            for seed, (name, service) in enumerate({"mine": mine, "theirs": theirs}.items()):
                model = deep(seed)
                answers[name] = (
                    laneway.inference(model, service=service, name=name, sync="manual"),
                    model(inputs),
                )
            for name in 4 * list(answers):
                predict, expected = answers[name]
                assert torch.equal(predict(inputs), expected), name
            users = {name: line["user"] for name, line in lines(mine).items()}
            assert users["mine"] != users["theirs"]


def looked(running, uid):
    """Whether an operator of that user's finds the other's weights where its results will lie."""
    name = f"marked beside {uid}"
    with running.connect() as mine:
        marked = laneway.inference(Marked(), service=mine, name=name, sync="manual")
        assert marked(torch.zeros(1)).item() == MARK * (18 << 18)
        mine.unload(name)
        wait_until(lambda: lines(mine)[name]["state"] == "away", "its range is free")
        with as_user(uid):
            theirs = running.connect()
        with theirs:
            found = False
            looks = laneway.inference(Looks(), service=theirs, name="looks", sync="manual")
            for _ in range(3):
                found = found or bool((looks(torch.zeros(1)) == MARK).any())
        return found


@torch.no_grad()
@pytest.mark.skipif(not can_be_another(), reason="only root can be another user")
def test_what_left_the_pool_is_not_read_where_it_lay():
    with Lanewayd("--staging", "128MiB", "--prefix", "none", pool=POOL) as running:
        assert looked(running, 0), "the scene would show it"
        assert not looked(running, NOBODY)


@torch.no_grad()
def test_one_job_that_two_clients_ask_for_at_once(tmp_path):
    trace = tmp_path / "trace"
    words = ("--staging", "128MiB", "--prefix", "none", "--trace", str(trace))
    with Lanewayd(*words, pool=POOL) as running, running.connect() as service:
        model = deep(5)
        inputs = torch.randn(4, WIDTH)
        expected = model(inputs)
        predict = laneway.inference(model, service=service, name="one", shared=True, sync="manual")
        assert torch.equal(predict(inputs), expected)
        wrong = []

        def ask(ready):
            with running.connect() as own, laneway.attach("one", own) as handle:
                answer = handle.inference(deep(5))
                for _ in range(4):
                    ready.wait()
                    wrong.append(not torch.equal(answer(inputs), expected))
                    ready.wait()

        ready = threading.Barrier(3)
        threads = [threading.Thread(target=ask, args=(ready,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            service.unload("one")
            wait_until(lambda: lines(service)["one"]["state"] == "away", "it is away")
            ready.wait()
            service.load("one")
            ready.wait()
        for thread in threads:
            thread.join()
        assert wrong == 8 * [False]
    told = subprocess.run(
        [str(program("laneway-trace")), str(trace)], check=True, capture_output=True, text=True
    ).stdout
    steps = re.findall(r"(PlaceImage|ImageLeft) job 1 ", told)
    assert steps.count("PlaceImage") >= 5
    assert all(one != following for one, following in itertools.pairwise(steps)), (
        "it comes once, whoever asks"
    )
