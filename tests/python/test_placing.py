"""A job whose image is on its way into the pool over a slow link holds nobody up, and can be ended
at any moment of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import laneway
from support.cli import run
from support.daemon import Lanewayd, wait_until

# At this rate the large image takes a minute; it is left after 4 MiB at most.
SLOW = ("--copy-bandwidth", "1MiB")


def step_of(service, name, width, **options):
    model = nn.Linear(width, 2)
    return laneway.train_step(
        model,
        nn.functional.mse_loss,
        torch.optim.SGD(model.parameters(), 0.1),
        service=service,
        name=name,
        **options,
    )


def state_of(service, name):
    states = [job["state"] for job in service.status()["jobs"] if job["name"] == name]
    return states[0] if states else None


@pytest.fixture
def beside_a_slow_image():
    """A service, a small job that is in the pool, and the step and future of a large one that is on
    its way there."""
    with (
        Lanewayd(*SLOW, pool="1GiB") as daemon,
        daemon.connect() as service,
        daemon.connect() as other,
        step_of(service, "small", 4) as small,
        ThreadPoolExecutor(1) as thread,
    ):
        small(torch.ones(2, 4), torch.ones(2, 2))
        large = step_of(other, "large", 8 << 20)
        # Its first call waits for the memory.
        future = thread.submit(large, torch.ones(2, 8 << 20), torch.ones(2, 2))
        try:
            wait_until(lambda: state_of(service, "large") == "staged", "the large job")
            yield daemon, service, small, large, future
        finally:
            large.close()


def train(small):
    for _ in range(200):
        small(torch.ones(2, 4), torch.ones(2, 2)).item()


def test_others_go_on_and_come_and_go(beside_a_slow_image):
    _, service, small, large, future = beside_a_slow_image
    train(small)
    assert small.state_dict()["model"]["weight"].shape == (2, 4)
    assert state_of(service, "large") == "staged"
    assert not future.done()
    large.close()
    train(small)


def test_it_ends_with_its_client_in_the_middle(beside_a_slow_image):
    _, service, small, large, future = beside_a_slow_image
    large.close()
    with pytest.raises(laneway.Error):
        future.result()
    assert state_of(service, "large") in ("finished", "cancelled")
    assert service.status()["pool"]["persistent_bytes"] < 1 << 20
    train(small)


def test_it_is_killed_in_the_middle(beside_a_slow_image):
    daemon, service, small, _, future = beside_a_slow_image
    assert run("kill", "large", address=daemon.address).returncode == 0
    with pytest.raises(laneway.Error, match="killed by an operator"):
        future.result()
    assert state_of(service, "large") == "cancelled"
    train(small)


def test_its_worker_dies_in_the_middle_and_it_is_placed_again(beside_a_slow_image):
    daemon, service, small, large, future = beside_a_slow_image
    daemon.kill(daemon.active_worker())
    train(small)
    assert state_of(service, "large") == "staged"
    daemon.kill(daemon.broker())
    wait_until(lambda: state_of(service, "large") == "staged", "the large job")
    assert not future.done()
    large.close()
    train(small)


@pytest.mark.filterwarnings("ignore:the weights of job")
def test_the_service_ends_in_the_middle(beside_a_slow_image):
    daemon, _, _, _, future = beside_a_slow_image
    assert run("shutdown", address=daemon.address).returncode == 0
    with pytest.raises(laneway.Error):
        future.result()


def test_who_does_not_wait_for_room_waits_for_the_bytes():
    with (
        Lanewayd(*SLOW, pool="256MiB") as daemon,
        daemon.connect() as service,
        ThreadPoolExecutor(1) as thread,
    ):
        with step_of(service, "patient", 1 << 17, admission_timeout=0) as step:  # a second's bytes
            step(torch.ones(2, 1 << 17), torch.ones(2, 2)).item()
        wide = torch.ones(2, 12 << 20)
        with step_of(service, "filler", 12 << 20) as filler:
            future = thread.submit(filler, wide, torch.ones(2, 2))
            wait_until(lambda: state_of(service, "filler") == "staged", "the filler")
            with (
                step_of(service, "other", 12 << 20, admission_timeout=0) as other,
                pytest.raises(laneway.Refused, match="not admitted within 0 s"),
            ):
                other(wide, torch.ones(2, 2))
        assert future.exception() is not None
