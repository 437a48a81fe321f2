"""Programs of the service, and clients, killed from outside at no particular step: idle, busy,
again and again. What survives has the bits of eager PyTorch; what does not says so; nobody hangs
and nothing is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import laneway
from support.daemon import DEADLINE_S, Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step

ROOT = Path(__file__).resolve().parents[2]
SEED = 5
STEPS = 6

# A client that trains for ever and tells about each iteration.
CLIENT = """
import json, sys, laneway
from support.engine import batches_of, make_step
service = laneway.connect(sys.argv[1])
step = make_step(service, "mlp", 1)
batches = batches_of("mlp", 1, 4)
print(json.dumps("made"), flush=True)
number = 0
while True:
    step(*batches[number % 4])
    number += 1
    print(json.dumps(number), flush=True)
"""


@pytest.fixture
def daemon():
    with Lanewayd() as running:
        yield running


def check(name, batches, state):
    assert_same(eager_state(name, SEED, "default", batches), state, name)


def train_with(daemon, between):
    """Trains, calling `between(number)` before each iteration; the job's state is eager's."""
    batches = batches_of("mlp", SEED, STEPS)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = []
        for number, batch in enumerate(batches):
            between(number)
            losses.append(step(*batch).item())
        check("mlp", batches, job_state(step, losses))


def test_an_idle_broker_killed_twice_is_not_noticed(daemon):
    train_with(daemon, lambda number: daemon.kill(daemon.broker()) if number in (2, 4) else None)


def test_an_idle_worker_killed_twice_is_not_noticed(daemon):
    train_with(
        daemon, lambda number: daemon.kill(daemon.active_worker()) if number in (2, 4) else None
    )


def test_broker_and_worker_killed_together_are_not_noticed(daemon):
    def both(number):
        if number == 3:
            worker = daemon.active_worker()
            os.kill(daemon.broker(), signal.SIGKILL)
            daemon.kill(worker)

    train_with(daemon, both)


@pytest.mark.parametrize("victim", ["broker", "active_worker"])
def test_killed_while_iterations_are_queued(daemon, victim):
    """Whatever the worker was doing: the job goes on with eager's bits, or is lost and says why."""
    batches = batches_of("mlp", SEED, 40)
    pid = getattr(daemon, victim)()
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        futures = [step.submit(*batch) for batch in batches[:20]]
        daemon.kill(pid)
        futures += [step.submit(*batch) for batch in batches[20:]]
        try:
            losses = [future.result(DEADLINE_S).item() for future in futures]
            check("mlp", batches, job_state(step, losses))
        except laneway.JobFailed as error:
            assert victim == "active_worker"
            assert "died" in str(error) and "state_dict" in str(error)


class Client:
    """The script above in a process of its own."""

    def __init__(self, address):
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "python", ROOT / "tests" / "python")))
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, address],
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
        )

    def tells(self):
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.parametrize("after", ["made", 1, 7])
def test_a_client_that_is_killed_takes_its_job_and_nothing_else(daemon, after):
    batches = batches_of("cnn", SEED, STEPS)
    with daemon.connect() as service, make_step(service, "cnn", SEED) as step:
        losses = [step(*batch).item() for batch in batches[:3]]
        before = service.status()["pool"]["persistent_bytes"]
        client = Client(daemon.address)
        try:
            while client.tells() != after:
                pass
        finally:
            client.kill()
        wait_until(
            lambda: service.status()["pool"]["persistent_bytes"] == before, "the job's memory"
        )
        losses += [step(*batch).item() for batch in batches[3:]]
        check("cnn", batches, job_state(step, losses))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_service_ends_every_call(number):
    with Lanewayd() as daemon:
        service = daemon.connect()
        step = make_step(service, "mlp", SEED)
        batches = batches_of("mlp", SEED, 40)
        futures = [step.submit(*batch) for batch in batches]
        os.kill(daemon.pid, number)
        with pytest.raises(laneway.Error) as caught:
            for _ in range(1000):
                for future in futures:
                    future.result(DEADLINE_S)
                futures = [step(*batches[0])] and [step.submit(*batches[0])]
        assert isinstance(caught.value, laneway.ServiceUnavailable)
        with pytest.raises(laneway.ServiceUnavailable):
            service.status()
        service.close()
        daemon.process.wait(DEADLINE_S)


def test_a_service_can_be_started_again_where_one_was_killed():
    with Lanewayd() as daemon:
        daemon.process.kill()
        daemon.process.wait()
        daemon.process.stdout.close()
        daemon.start()
        train_with(daemon, lambda number: None)


@pytest.mark.parametrize("who", ["worker", "broker"])
def test_a_kill_between_an_iteration_and_the_read_that_synchronises_is_not_noticed(daemon, who):
    batches = batches_of("mlp", SEED, STEPS)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses, read = [], None
        for number, batch in enumerate(batches):
            losses.append(step(*batch).item())
            if number in (2, 4):
                daemon.kill(daemon.active_worker() if who == "worker" else daemon.broker())
                read = step.model.state_dict()
                assert_same(read, step.state_dict()["model"], "what was read")
        check("mlp", batches, job_state(step, losses))
