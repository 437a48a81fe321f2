"""Shows that a step of several models and optimizers leaves the losses, model tensors and optimizer
states of the same function run eagerly, bit for bit: by training both and comparing all of it."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError, InvalidInput
from support.daemon import Lanewayd
from support.eager import assert_same
from support.several import BATCHES, MAKERS, Made, eager, gan, made, state_of


@pytest.mark.parametrize("maker", MAKERS)
def test_equals_eager(maker, service):
    losses, state = eager(maker)
    models, optimizers, train = made(maker)
    with laneway.step(models, optimizers, service=service)(train) as step:
        assert_same([step(x) for x in BATCHES], losses, "losses")
        assert_same(step.state_dict(), state)
        assert_same(state_of(models, optimizers), state)  # read from the client's own objects
        others, other_optimizers, _ = made(maker, seed=5)
        step.sync_to(others, other_optimizers)
        torch.set_rng_state(state["random"])
        assert_same(state_of(others, other_optimizers), state)


def test_equals_eager_through_a_service():
    losses, state = eager(gan)
    models, optimizers, train = made(gan)
    with (
        Lanewayd() as daemon,
        daemon.connect() as service,
        laneway.step(models, optimizers, service=service)(train) as step,
    ):
        assert_same([step(x) for x in BATCHES], losses, "losses")
        assert_same(step.state_dict(), state)


@pytest.mark.parametrize("maker", MAKERS)
def test_an_iteration_can_be_abandoned_until_its_first_write(maker):
    """No node before first_write may write to memory that outlasts the iteration, and all work that
    needs no new weight comes before it."""
    models, optimizers, train = made(maker)
    captured = capture_train_step(
        nn.ModuleList(models), None, optimizers, (BATCHES[0],), closure=lambda m, o, x: train(x)
    )
    graph = captured.graph
    before = graph.nodes[: graph.first_write]
    assert not any(graph.is_persistent(value) for node in before for value in node.writes)
    assert any("backward" in node.op or "mm" in node.op for node in before)


def test_a_closure_gets_the_lists(service):
    losses, state = eager(gan)
    models, optimizers, train = made(gan)

    def closure(given_models, given_optimizers, x):
        assert given_models == models
        assert len(given_optimizers) == 2
        return train(x)

    step = laneway.train_step(tuple(models), None, tuple(optimizers), service, closure=closure)
    assert_same([step(x) for x in BATCHES], losses, "losses")
    assert_same(step.state_dict(), state)


def test_rates_and_schedulers_of_every_optimizer(service):
    def run(call, optimizers):
        schedulers = [
            torch.optim.lr_scheduler.StepLR(o, 1, gamma) for o, gamma in zip(optimizers, (0.5, 2))
        ]
        found = []
        for x in BATCHES:
            found.append(call(x))
            for scheduler in schedulers:
                scheduler.step()
        return found

    models, optimizers, train = made(gan)
    losses = run(train, optimizers)
    state = state_of(models, optimizers)
    models, optimizers, train = made(gan)
    step = laneway.step(models, optimizers, service=service)(train)
    assert_same(run(step, optimizers), losses, "losses")
    assert_same(step.state_dict(), state)
    assert len(step.job.report()["graphs"]) == 1  # rates are inputs


def test_an_optimizer_that_steps_in_some_calls_only(service):
    def often() -> Made:
        models, optimizers, train = gan()
        netD, optD = models[0], optimizers[0]

        def alternating(x, both):
            if both:
                return train(x)
            netD.zero_grad()
            loss = netD(x).mean()
            loss.backward()
            optD.step()
            return loss, loss

        return models, optimizers, alternating

    calls = [(BATCHES[0], False), (BATCHES[1], False), (BATCHES[2], True), (BATCHES[3], False)]
    expected = copied(often, calls)
    models, optimizers, train = made(often)
    step = laneway.step(models, optimizers, service=service)(train)
    for position, (call, (losses, state)) in enumerate(zip(calls, expected)):
        assert_same(step(*call), losses, f"losses {position}")
        assert_same(step.state_dict(), state, f"state {position}")


def copied(maker: Callable[[], Made], calls: list[tuple]) -> list[tuple[Any, dict[str, Any]]]:
    """What each call gives in eager execution, and a copy of the state after it."""
    models, optimizers, train = made(maker)
    return [(train(*call), copy.deepcopy(state_of(models, optimizers))) for call in calls]


def test_resumes_from_a_file(service, tmp_path):
    losses, state = eager(gan)
    models, optimizers, train = made(gan)
    first = laneway.step(models, optimizers, service=service)(train)
    for x in BATCHES[:2]:
        first(x)
    first.save(tmp_path / "state")
    first.close()
    models, optimizers, train = made(gan, seed=7)
    second = laneway.step(models, optimizers, service=service)(train)
    second.load(tmp_path / "state")  # before its first call
    assert_same([second(x) for x in BATCHES[2:4]], losses[2:4], "losses")
    second.load(tmp_path / "state")  # and behind it
    assert_same([second(x) for x in BATCHES[2:]], losses[2:], "losses")
    assert_same(second.state_dict(), state)


def test_inference_of_one_of_the_models(service):
    models, optimizers, train = made(gan)
    noise = torch.linspace(-1, 1, 12).reshape(4, 3)
    for x in BATCHES:
        train(x)
    with torch.no_grad():
        fake = models[1].eval()(noise)
        judged = models[0].eval()(fake)
    models, optimizers, train = made(gan)
    step = laneway.step(models, optimizers, service=service)(train)
    for x in BATCHES:
        step(x)
    netD, netG = models
    assert_same(laneway.inference(step, model=netG)(noise), fake)
    assert_same(laneway.inference(step, model=netD)(fake), judged)
    doubled = laneway.inference(step, model=netG, closure=lambda net, z: net(z) * 2)
    assert_same(doubled(noise), fake * 2)
    both = laneway.inference(step, closure=lambda nets, z: nets[0](nets[1](z)))
    assert_same(both(noise), judged)
    with pytest.raises(InvalidInput, match=r"2 models.*model="):
        laneway.inference(step)
    with pytest.raises(InvalidInput, match="not made with"):
        laneway.inference(step, model=nn.Linear(3, 6))
    with pytest.raises(InvalidInput, match="no step here"):
        laneway.inference(netG, model=netG)


def test_another_client_attaches_to_several_models(service):
    models, optimizers, train = made(gan)
    step = laneway.step(models, optimizers, service=service, name="gan", shared=True)(train)
    for x in BATCHES:
        step(x)
    noise = torch.linspace(-1, 1, 12).reshape(4, 3)
    expected = laneway.inference(step, model=models[1])(noise)
    others, _, _ = made(gan, seed=9)
    with laneway.attach("gan", service) as attached:
        root = nn.ModuleList(others)
        predict = attached.inference(root, closure=lambda nets, z: nets[1](z))
        assert_same(predict(noise), expected)


def test_one_scaler_for_two_optimizers(service):
    scalers = []

    def scaled() -> Made:
        a, b = nn.Linear(6, 4), nn.Linear(4, 1)
        first = torch.optim.Adam(a.parameters(), lr=0.01, fused=True)
        second = torch.optim.SGD(b.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
        scalers.append(scaler)

        def train(x):
            first.zero_grad()
            second.zero_grad()
            loss = b(torch.relu(a(x))).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(first)
            scaler.step(second)
            scaler.update()
            return loss

        return [a, b], [first, second], train

    broken = [*BATCHES[:2], BATCHES[2] * float("inf"), *BATCHES[3:]]  # one is skipped
    losses, state = eager(scaled, broken)
    models, optimizers, train = made(scaled)
    step = laneway.step(models, optimizers, service=service)(train)
    assert_same([step(x) for x in broken], losses, "losses")
    found = step.state_dict()
    assert_same(found.pop("scaler"), scalers[0].state_dict())
    assert_same(found, state)


def test_bad_input_is_refused_in_words(service):
    models, optimizers, train = made(gan)
    with pytest.raises(InvalidInput, match="model\\[1\\] is a Adam"):
        laneway.train_step([models[0], optimizers[0]], None, optimizers, service, closure=train)
    with pytest.raises(InvalidInput, match="at least one model"):
        laneway.train_step([], None, optimizers, service, closure=train)
    with pytest.raises(InvalidInput, match="needs closure="):
        laneway.train_step(models, None, optimizers, service)
    step = laneway.step(models, optimizers, service=service)(train)
    for called in (False, True):
        if called:
            step(BATCHES[0])
        before = step.state_dict()
        with pytest.raises(InvalidInput, match=r"'model' has one state, and a list of 2 states"):
            step.load_state_dict(before | {"model": before["model"][0]})
        with pytest.raises(InvalidInput, match="'optimizer' has a list of 1 states"):
            step.load_state_dict(before | {"optimizer": before["optimizer"][:1]})
        with pytest.raises(InvalidInput, match="'model' has a list of 2 states"):
            step.sync_to(models[0])
        assert_same(step.state_dict(), before)


def test_a_changed_hyperparameter_of_the_second_optimizer_counts(service):
    def run(call, optimizers):
        found = [call(x) for x in BATCHES[:2]]
        optimizers[1].param_groups[0]["betas"] = (0.9, 0.9)
        return found + [call(x) for x in BATCHES[2:]]

    models, optimizers, train = made(gan)
    losses = run(train, optimizers)
    models, optimizers, train = made(gan)
    step = laneway.step(models, optimizers, service=service)(train)
    assert_same(run(step, optimizers), losses, "losses")


def test_an_optimizer_outside_of_the_list_is_refused(service):
    models, optimizers, train = made(gan)
    step = laneway.step(models, optimizers[:1], service=service)(train)
    with pytest.raises(CaptureError, match=r"laneway.step\(\[a, b\]"):
        step(BATCHES[0])


def test_a_model_outside_of_the_list_is_refused(service):
    models, optimizers, train = made(gan)
    step = laneway.step(models[0], optimizers[0], service=service)(train)
    with pytest.raises(CaptureError, match=r"in a list: laneway.step\(\[a, b\]"):
        step(BATCHES[0])


def test_captures_of_one_model_in_two_lists_exclude_each_other(service):
    """Two steps that share a model are captured by two threads; one that saw the fakes of the other
    would fail or leave them behind."""
    models, optimizers, train = made(gan)
    (netD, netG), (optD, optG) = models, optimizers

    def other(x):
        optG.zero_grad()
        loss = netD(netG(x[:, :3])).mean()
        loss.backward()
        optG.step()
        return loss

    steps = [
        laneway.step([netD, netG], [optD, optG], service=service, sync="manual")(train),
        laneway.step([netG, netD], [optG], service=service, sync="manual")(other),
    ]
    errors: list[BaseException] = []

    def call(step: Any) -> None:
        try:
            for rows in (8, 6, 4):
                step(BATCHES[0][:rows])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(type(p) is nn.Parameter for model in models for p in model.parameters())
    with contextlib.ExitStack() as closing:
        for step in steps:
            closing.enter_context(step)
