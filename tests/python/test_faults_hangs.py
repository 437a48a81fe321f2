"""Workers and standbys that are stopped or hang are replaced, and nothing of a job is lost."""

import os
import signal

import pytest

from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step

SEED = 5
STEPS = 6


def train_with(daemon, between):
    """Trains, calling `between(number)` before each iteration; the job's state is eager's."""
    batches = batches_of("mlp", SEED, STEPS)
    with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = []
        for number, batch in enumerate(batches):
            between(number)
            losses.append(step(*batch).item())
        assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses))


def ready_standby(daemon):
    """The process id of a standby, once there is one."""

    def standbys():
        with daemon.connect() as service:
            workers = service.status()["workers"]
        return [w["pid"] for w in workers if w["role"] == "standby" and w["state"] == "ready"]

    wait_until(standbys, "a ready standby")
    return standbys()[0]


def test_a_worker_that_is_stopped_for_good_is_replaced():
    with Lanewayd() as daemon:

        def stop(number):
            if number == 3:
                os.kill(daemon.active_worker(), signal.SIGSTOP)

        train_with(daemon, stop)
        assert "it was stopped for too long" in daemon.log()


def test_a_stopped_standby_does_not_take_over():
    with Lanewayd("--standby", "2") as daemon:

        def stop(number):
            if number == 3:
                os.kill(ready_standby(daemon), signal.SIGSTOP)
                daemon.kill(daemon.active_worker())

        train_with(daemon, stop)


def test_a_worker_that_is_continued_at_once_goes_on():
    with Lanewayd() as daemon:

        def stop(number):
            worker = daemon.active_worker()
            os.kill(worker, signal.SIGSTOP)
            os.kill(worker, signal.SIGCONT)

        train_with(daemon, stop)
        assert "is given up" not in daemon.log()


def test_the_whole_service_is_stopped_and_continued():
    with Lanewayd() as daemon:

        def stop(number):
            if number != 3:
                return
            everybody = [*daemon.children(), daemon.process.pid]
            for each in everybody:
                os.kill(each, signal.SIGSTOP)
            for each in everybody:
                os.kill(each, signal.SIGCONT)

        train_with(daemon, stop)
        assert "is given up" not in daemon.log()


@pytest.mark.parametrize("kills", [12])
def test_workers_that_die_with_work_in_between_do_not_end_the_service(kills):
    with Lanewayd() as daemon:
        batches = batches_of("mlp", SEED, kills)
        with daemon.connect() as service, make_step(service, "mlp", SEED) as step:
            losses = []
            for batch in batches:
                losses.append(step(*batch).item())
                daemon.kill(daemon.active_worker())
            assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses))
