"""Jobs whose images come back while they run: a node waits for its bytes, a write and an answer for
the whole; what was in the pool before is never computed with."""

import re
import subprocess

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import ServiceUnavailable
from support.crowd import lines, places
from support.daemon import Lanewayd, program, wait_until
from support.eager import assert_same

LAYERS, WIDTH = 8, 768  # 18 MiB
POOL = "32MiB"  # for one of them
LINK = "100MiB"  # a second: an image is on its way for 0.2 s


def deep(seed):
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def away(service, name):
    service.unload(name)
    wait_until(lambda: "pool" not in places(service)[name], f"{name} is away")


def daemon(folder, *words, pool=POOL):
    outside = ("--staging", "128MiB") if folder is None else (
        "--staging", "0", "--spill", f"{folder}:128MiB"
    )  # fmt: skip
    words = ("--copy-bandwidth", LINK, *outside, *words)
    return Lanewayd(*words, pool=pool)


def entries(trace):
    """What the core heard and decided of job 1, in words."""
    words = [str(program("laneway-trace")), str(trace)]
    text = subprocess.run(words, check=True, capture_output=True, text=True)
    return re.findall(r"(?:heard|decided) (\w+ job 1 .*|GrantTurn .*job 1.*)", text.stdout)


@torch.no_grad()
@pytest.mark.parametrize("tier", ["store", "spill"])
def test_a_job_runs_while_its_image_comes_back(tier, tmp_path):
    trace = tmp_path / "trace"
    folder = tmp_path if tier == "spill" else None
    with daemon(folder, "--trace", str(trace)) as running, running.connect() as service:
        first, second = deep(1), deep(2)
        inputs = torch.randn(4, WIDTH)
        one = laneway.inference(first, service=service, name="one")
        assert torch.equal(one(inputs), first(inputs))
        away(service, "one")
        other = laneway.inference(second, service=service, name="other")
        assert torch.equal(other(inputs), second(inputs))
        for _ in range(3):  # each finds the other one's bytes in its place
            assert torch.equal(one(inputs), first(inputs))
            assert torch.equal(other(inputs), second(inputs))
        one.close()
        other.close()
    told = entries(trace)
    arrives = next(i for i, line in enumerate(told) if "its bytes are arriving" in line)
    whole = next(i for i in range(arrives + 1, len(told)) if told[i].startswith("ImagePlaced"))
    assert any("GrantTurn" in line for line in told[arrives:whole]), told


def trained(service, name, seed):
    model = deep(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return laneway.train_step(
        model, nn.functional.mse_loss, optimizer, service=service, name=name, sync="manual"
    )


def test_trainings_that_come_back_keep_their_state(tmp_path):
    inputs, targets = torch.randn(4, WIDTH), torch.randn(4, WIDTH)
    with laneway.embedded("256MiB") as service:
        step = trained(service, "alone", 3)
        expected = [step(inputs, targets).item() for _ in range(4)]
        state = step.state_dict()
    words = ("--copy-bandwidth", "400MiB", "--staging", "256MiB")
    with Lanewayd(*words, pool="64MiB") as running, running.connect() as service:
        steps = [trained(service, name, 3) for name in ("a", "b")]
        losses = [[], []]
        for _ in range(4):
            for mine, step in zip(losses, steps):
                mine.append(step(inputs, targets).item())
        assert losses == [expected, expected]
        for step in steps:
            assert_same(step.state_dict(), state)


def arriving(service, name):
    line = lines(service).get(name)
    return line is not None and line["image"]["arriving"]


def test_a_close_ends_what_arrives():
    with daemon(None) as running, running.connect() as service:
        model = deep(4)
        answer = laneway.inference(model, service=service, name="one", sync="manual")
        inputs = torch.randn(2, WIDTH)
        answer(inputs)
        away(service, "one")
        future = answer.submit(inputs)
        wait_until(lambda: arriving(service, "one"), "its bytes are arriving")
        answer.close()
        with pytest.raises(ServiceUnavailable, match="closed"):
            future.result()
        wait_until(lambda: lines(service)["one"]["state"] == "finished", "the job is gone")
        other = laneway.inference(deep(5), service=service)  # its place is free
        with torch.no_grad():
            assert torch.equal(other(inputs), deep(5)(inputs))


def test_state_that_is_read_while_it_arrives_is_whole():
    with daemon(None, pool="64MiB") as running, running.connect() as service:
        model = deep(8)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        step = laneway.train_step(
            model, nn.functional.mse_loss, optimizer, service=service, name="one", sync="manual"
        )
        inputs = torch.randn(2, WIDTH)
        step(inputs, inputs)
        expected = {name: tensor.clone() for name, tensor in step.state_dict()["model"].items()}
        away(service, "one")
        future = step.submit(inputs, inputs)
        wait_until(lambda: arriving(service, "one"), "its bytes are arriving")
        assert_same(step.state_dict()["model"], expected)
        future.result()


@pytest.mark.parametrize("victim", ["worker", "broker"])
def test_whoever_dies_while_an_image_arrives_loses_nothing(victim):
    with daemon(None) as running, running.connect() as service:
        model = deep(6)
        answer = laneway.inference(model, service=service, name="one")
        inputs = torch.randn(2, WIDTH)
        with torch.no_grad():
            expected = model(inputs)
        for _ in range(3):
            assert torch.equal(answer(inputs), expected)
            away(service, "one")
            future = answer.submit(inputs)
            wait_until(lambda: arriving(service, "one"), "its bytes are arriving")
            running.kill(running.active_worker() if victim == "worker" else running.broker())
            assert torch.equal(future.result(), expected)
            wait_until(lambda: not arriving(service, "one"), "it is whole")


def test_others_in_the_pool_run_meanwhile():
    with daemon(None) as running, running.connect() as service:
        small = nn.Linear(16, 16)
        quick = laneway.inference(small, service=service, name="quick")
        model = deep(7)
        slow = laneway.inference(model, service=service, name="slow")
        inputs, few = torch.randn(2, WIDTH), torch.randn(3, 16)
        slow(inputs)
        away(service, "slow")
        future = slow.submit(inputs)
        wait_until(lambda: arriving(service, "slow"), "its bytes are arriving")
        with torch.no_grad():
            for _ in range(20):
                assert torch.equal(quick(few), small(few))
            assert torch.equal(future.result(), model(inputs))
