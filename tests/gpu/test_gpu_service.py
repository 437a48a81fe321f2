"""Jobs through a lanewayd on the device: as plain PyTorch trains there, with programs of the
service killed, and nothing of anybody else lost."""

import device as dev
import pytest

import laneway
from bench.gpu import laneway_device
from support.daemon import Lanewayd


@pytest.fixture
def daemon(device):
    with Lanewayd(*laneway_device.daemon_words(device), pool=dev.POOL) as running:
        yield running


def embedded_state(device, name, batches):
    service = laneway_device.embedded(device, dev.POOL)
    with dev.reporting(service), dev.make_step(service, name) as step:
        return dev.train(step, batches)


@pytest.mark.parametrize("name", ["mlp", pytest.param("gpt", marks=pytest.mark.long)])
def test_a_job_of_a_service_trains_as_plain_pytorch_does(name, device, daemon, record_property):
    batches = dev.batches_of(name, 6)
    with dev.reporting(daemon.connect(), daemon) as service, dev.make_step(service, name) as step:
        ours = dev.train(step, batches)
    plain = dev.train_plain(name, batches)
    dev.assert_as_plain(ours, plain, dev.initial_state(name), record_property)


def test_a_service_and_an_embedded_one_give_the_same_bits(device, daemon):
    batches = dev.batches_of("mlp", 12)
    with dev.reporting(daemon.connect(), daemon) as service, dev.make_step(service, "mlp") as step:
        ours = dev.train(step, batches)
    dev.assert_same_bits(ours, embedded_state(device, "mlp", batches))


@pytest.mark.parametrize("victim", ["active_worker", "broker"])
def test_one_that_is_killed_while_idle_costs_no_bits(victim, device, daemon, record_property):
    """Where the pool outlives its worker the job goes on; where it cannot, the job ends and says
    why, and the service goes on."""
    batches = dev.batches_of("mlp", 10)
    with dev.reporting(daemon.connect(), daemon) as service, dev.make_step(service, "mlp") as step:
        losses = [step(*batch).item() for batch in batches[:5]]
        daemon.kill(getattr(daemon, victim)())
        try:
            losses += [step(*batch).item() for batch in batches[5:]]
            ours = dev.left(step, losses)
        except laneway.JobFailed as error:
            assert victim == "active_worker" and len(str(error)) > 20
            ours = None
    record_property("went_on", int(ours is not None))
    if ours is not None:
        dev.assert_same_bits(ours, embedded_state(device, "mlp", batches))
    train_another(daemon)


def test_a_worker_that_is_killed_at_work_takes_at_most_that_job(device, daemon, record_property):
    batches = dev.batches_of("mlp", 40)
    with dev.reporting(daemon.connect(), daemon) as service, dev.make_step(service, "mlp") as step:
        step(*batches[0])
        worker = daemon.active_worker()
        futures = [step.submit(*batch) for batch in batches[1:]]
        daemon.kill(worker)
        try:
            losses = [future.result(60).item() for future in futures]
            record_property("went_on", int(len(losses) == 39))
        except laneway.JobFailed as error:
            record_property("went_on", 0)
            assert "died" in str(error) or "worker" in str(error)
    train_another(daemon)


def train_another(daemon):
    """A new job, after whatever happened."""
    batches = dev.batches_of("mlp", 2, seed=3)
    with (
        dev.reporting(daemon.connect(), daemon) as service,
        dev.make_step(service, "mlp", seed=3) as step,
    ):
        assert len(dev.train(step, batches).losses) == 2
