"""The active worker dies when a standby has prepared its jobs, while it prepares them, and after
they changed since; broker and standby die in between. Jobs that go on have eager PyTorch's bits."""

import os
import signal

import pytest

import laneway
from support import gates
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.gates import Gate

SEED = 7
STEPS = 6


@pytest.fixture
def gate(tmp_path):
    """Before which a standby stays, whatever it is told to prepare, while it is shut."""
    return Gate(tmp_path, "preparing")


@pytest.fixture
def daemon(gate):
    with Lanewayd(environment=gates.later_environment(gate)) as running:
        yield running


class Training:
    """A job that trains on request; `check` compares it with eager."""

    def __init__(self, service, name):
        self.name = name
        self.batches = batches_of(name, SEED, STEPS)
        self.step = make_step(service, name, SEED)
        self.losses = []
        self.train(1)  # the job is made by its first call

    def train(self, steps):
        for batch in self.batches[len(self.losses) : len(self.losses) + steps]:
            self.losses.append(self.step(*batch).item())

    def check(self):
        expected = eager_state(self.name, SEED, "default", self.batches[: len(self.losses)])
        assert_same(expected, job_state(self.step, self.losses), self.name)


def standbys(service):
    return [w for w in service.status()["workers"] if w["role"] == "standby"]


def prepared(service, jobs):
    """The pid of a standby that has so many jobs, and is ready with all of them."""

    def look():
        for worker in standbys(service):
            if worker["jobs_prepared"] == worker["jobs_to_prepare"] == jobs:
                return worker["pid"]
        return None

    return wait_until(look, f"a standby with {jobs} jobs")


def connected(service):
    """The pid of a standby that the broker talks to."""

    def look():
        found = [w["pid"] for w in standbys(service) if w["jobs_to_prepare"] is not None]
        return found[0] if found else None

    return wait_until(look, "a standby that prepares")


def take_over(daemon, pid):
    """Kills the active worker; the standby follows it."""
    daemon.kill(daemon.active_worker())
    assert daemon.active_worker() == pid


def test_a_standby_that_has_prepared_takes_over_again_and_again(daemon):
    with daemon.connect() as service:
        jobs = [Training(service, name) for name in ("mlp", "cnn")]
        for _ in range(2):
            for job in jobs:
                job.train(2)
            take_over(daemon, prepared(service, 2))
        for job in jobs:
            job.check()
            # All that the predecessors learnt was kept; each of the workers ran what they ran.
            (graph,) = job.step.report()["graphs"]
            assert graph["probes"] == 0
            assert graph["planned_peak_bytes"] is not None


def test_what_changed_since_it_prepared_is_as_it_is(daemon, gate):
    with daemon.connect() as service:
        stays, goes = Training(service, "mlp"), Training(service, "cnn")
        pid = prepared(service, 2)
        with gate.shut():
            goes.step.close()
            comes = Training(service, "cnn")
            gate.wait()
            answer = laneway.inference(stays.step)
            before = answer(stays.batches[0][0])
        assert prepared(service, 2) == pid
        take_over(daemon, pid)
        assert_same(before, answer(stays.batches[0][0]))
        for job in (stays, comes):
            job.train(2)
            job.check()


def test_a_standby_killed_while_it_prepares_is_followed_by_one_that_prepares(daemon, gate):
    with daemon.connect() as service:
        job = Training(service, "mlp")
        first = prepared(service, 1)
        with gate.shut():
            other = Training(service, "cnn")
            gate.wait()
            daemon.kill(first)
        pid = prepared(service, 2)
        assert pid != first
        take_over(daemon, pid)
        for training in (job, other):
            training.train(2)
            training.check()


def test_a_broker_killed_while_a_standby_prepares_has_it_prepare_again(daemon, gate):
    with daemon.connect() as service:
        pid = connected(service)
        with gate.shut():
            job = Training(service, "mlp")
            gate.wait()
            daemon.kill(daemon.broker())
        assert prepared(service, 1) == pid
        take_over(daemon, pid)
        job.train(2)
        job.check()


def test_an_active_worker_killed_while_its_standby_prepares_has_a_successor(daemon, gate):
    with daemon.connect() as service:
        connected(service)
        with gate.shut():
            job = Training(service, "mlp")
            gate.wait()
            os.kill(daemon.active_worker(), signal.SIGKILL)
        job.train(2)
        job.check()
