"""Jobs whose images come back while they run: a node waits for its bytes, a write and an answer for
the whole; what was in the pool before is never computed with."""

import re
import subprocess

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import ServiceUnavailable
from support.crowd import lines
from support.daemon import Lanewayd, program, wait_until
from support.eager import assert_same

LAYERS, WIDTH = 8, 768  # 18 MiB
POOL = "32MiB"  # for one of them
LINK = "100MiB"  # a second: an image is on its way for 0.2 s


def deep(seed, layers=LAYERS):
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))


def away(service, name):
    service.unload(name)
    wait_until(lambda: lines(service)[name]["state"] == "away", f"{name} is away")


def daemon(folder, *words, pool=POOL, prefix="none"):
    outside = ("--staging", "128MiB") if folder is None else (
        "--staging", "0", "--spill", f"{folder}:128MiB"
    )  # fmt: skip
    words = ("--copy-bandwidth", LINK, "--prefix", prefix, *outside, *words)
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


def held_behind_a_copy(service):
    told = lines(service)
    return told["training"]["state"] == "paused" and told["urgent"]["image"]["arriving"]


@pytest.mark.parametrize("victim", ["worker", "broker"])
def test_whoever_dies_with_a_copy_and_a_pause_open_changes_nothing(victim):
    """An urgent model, whose image is still on its way, holds a training in its iteration."""
    inputs, targets, asked = torch.randn(512, WIDTH), torch.randn(512, WIDTH), torch.randn(2, WIDTH)
    model = deep(15)
    with torch.no_grad():
        expected = model(asked)
    with laneway.embedded("256MiB") as service:
        step = trained(service, "alone", 14)
        losses = [step(inputs, targets).item() for _ in range(6)]
        state = step.state_dict()
    with daemon(None, pool="256MiB") as running, running.connect() as service:
        step = trained(service, "training", 14)
        urgent = laneway.inference(model, service=service, name="urgent", priority=5)
        assert torch.equal(urgent(asked), expected)
        futures, killed = [step.submit(inputs, targets)], False
        futures[0].result()
        while len(futures) < len(losses):
            away(service, "urgent")
            futures.append(step.submit(inputs, targets))
            wait_until(lambda: lines(service)["training"]["state"] == "running", "it trains")
            answer = urgent.submit(asked)
            wait_until(
                lambda answer=answer: held_behind_a_copy(service) or answer.done(),
                "one waits for the other's bytes",
            )
            if not answer.done() and not killed:
                running.kill(running.active_worker() if victim == "worker" else running.broker())
                killed = True
            assert torch.equal(answer.result(), expected)
            futures[-1].result()
        assert killed
        assert [future.result().item() for future in futures] == losses
        assert_same(step.state_dict(), state)


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


def pool_bytes(service, name):
    return lines(service)[name]["image"]["pool_bytes"]


@torch.no_grad()
@pytest.mark.parametrize("tier", ["store", "spill"])
def test_a_part_of_an_image_stays_as_long_as_nobody_needs_the_room(tier, tmp_path):
    """Grown around where it stayed, moved, and given up: always with the model's own answers."""
    trace = tmp_path / "trace"
    folder = tmp_path if tier == "spill" else None
    words = ("--trace", str(trace))
    with (
        daemon(folder, *words, pool="48MiB", prefix="50%") as running,
        running.connect() as service,
    ):
        models = {name: deep(seed) for seed, name in enumerate(("one", "two", "three"))}
        inputs = torch.randn(4, WIDTH)
        expected = {name: model(inputs) for name, model in models.items()}
        answers = {
            name: laneway.inference(model, service=service, name=name)
            for name, model in models.items()
        }
        assert torch.equal(answers["one"](inputs), expected["one"])
        whole = pool_bytes(service, "one")
        away(service, "one")
        assert pool_bytes(service, "one") == pytest.approx(whole / 2, abs=200)
        assert torch.equal(answers["one"](inputs), expected["one"])  # grown
        away(service, "one")
        assert torch.equal(answers["two"](inputs), expected["two"])  # behind the half
        assert pool_bytes(service, "one") > 0
        for name in ("three", "one", "two", "three", "one", "three", "two"):
            assert torch.equal(answers[name](inputs), expected[name]), name
        for name in models:
            away(service, name)
        large = deep(3, 2 * LAYERS)  # and two halves are more than the pool
        answers["large"] = laneway.inference(large, service=service, name="large")
        assert torch.equal(answers["large"](inputs), large(inputs))
        assert torch.equal(answers["one"](inputs), expected["one"])
        for answer in answers.values():
            answer.close()
        wait_until(lambda: service.status()["pool"]["persistent_bytes"] == 0, "the pool is empty")
    words = [str(program("laneway-trace")), str(trace)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "DropPrefix" in told
    assert "beginning with" in told


@torch.no_grad()
def test_by_the_rule_as_much_stays_as_the_link_cannot_bring_in_time():
    with daemon(None, prefix="auto") as running, running.connect() as service:
        model = deep(9)
        inputs = torch.randn(4, WIDTH)
        answer = laneway.inference(model, service=service, name="one")
        for _ in range(3):  # a plan, an arrival to measure, and one with what stayed
            assert torch.equal(answer(inputs), model(inputs))
            away(service, "one")
        whole = lines(service)["one"]["persistent_bytes"]
        # All of it takes 0.2 s on the link, and the nodes a few milliseconds.
        assert whole / 2 < pool_bytes(service, "one") < whole


@torch.no_grad()
@pytest.mark.parametrize("victim", ["worker", "broker"])
def test_what_stayed_is_never_trusted_more_than_who_knows_of_it(victim):
    with daemon(None, pool="64MiB", prefix="50%") as running, running.connect() as service:
        model, other = deep(10), deep(11)
        inputs = torch.randn(2, WIDTH)
        answer = laneway.inference(model, service=service, name="one")
        second = laneway.inference(other, service=service, name="two")
        expected, theirs = model(inputs), other(inputs)
        for is_away in (True, False):
            assert torch.equal(answer(inputs), expected)
            away(service, "one")
            assert torch.equal(second(inputs), theirs)
            future = None if is_away else answer.submit(inputs)
            if future is not None:
                wait_until(lambda: arriving(service, "one"), "its bytes are arriving")
            running.kill(running.active_worker() if victim == "worker" else running.broker())
            if future is not None:
                assert torch.equal(future.result(), expected)
            assert torch.equal(second(inputs), theirs)
            assert torch.equal(answer(inputs), expected)
            wait_until(lambda: not arriving(service, "one"), "it is whole")


@torch.no_grad()
def test_a_client_that_goes_while_its_image_comes_back_leaves_nothing():
    """Of an image that is copied from two places: what stayed of it, and what lies outside."""
    with daemon(None, pool="64MiB", prefix="50%") as running, running.connect() as service:
        inputs = torch.randn(2, WIDTH)
        model = deep(12)
        other = laneway.inference(model, service=service, name="other")
        with running.connect() as gone:
            answer = laneway.inference(deep(13), service=gone, name="one")
            answer(inputs)
            away(service, "one")
            assert torch.equal(other(inputs), model(inputs))  # behind what stayed
            answer.submit(inputs)
            wait_until(lambda: arriving(service, "one"), "its bytes are arriving")
        theirs = pool_bytes(service, "other")
        wait_until(
            lambda: service.status()["pool"]["persistent_bytes"] == theirs, "its ranges are free"
        )
        assert service.status()["store"]["used_bytes"] == 0
        assert torch.equal(other(inputs), model(inputs))
