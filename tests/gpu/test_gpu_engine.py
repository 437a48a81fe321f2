"""Embedded jobs on the device: they train as plain PyTorch does there, in every way of running
them, and what cannot run is refused without harm to the rest."""

from concurrent.futures import ThreadPoolExecutor

import device as dev
import pytest
import torch

import laneway
from bench import models
from bench.gpu import laneway_device

# resnet18 normalises over four images, sometimes over one pixel of each: rounding of one part in a
# million is a fifth of the second update.
STEPS = {"mlp": 8, "cnn": 5, "gpt": 5, "lstm": 5, "resnet18": 1}
REPLAYED = 12  # iterations: enough for a recording to be made and used


def embedded(device, pool=dev.POOL, **options):
    return dev.reporting(laneway_device.embedded(device, pool, **options))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("mlp", "gpt") else pytest.mark.long) for n in STEPS]
)
def test_a_job_trains_as_plain_pytorch_does(name, device, record_property):
    batches = dev.batches_of(name, STEPS[name])
    with embedded(device) as service, dev.make_step(service, name) as step:
        ours = dev.train(step, batches)
    plain = dev.train_plain(name, batches)
    dev.assert_as_plain(ours, plain, dev.initial_state(name), record_property)


def train_with_replay(device, name, replay, batches, record, draws=False):
    """The host's iterations are never replayed."""
    with (
        embedded(device) as service,
        dev.make_step(service, name, replay=replay, draws=draws) as step,
    ):
        trained = dev.train(step, batches)
        if replay == "on" and device != "host":
            dev.note_replay(service, step, record)
        return trained


def test_a_replayed_job_has_the_bits_of_one_that_runs_node_by_node(device, record_property):
    batches = dev.batches_of("mlp", REPLAYED)
    ours = train_with_replay(device, "mlp", "on", batches, record_property)
    dev.assert_same_bits(ours, train_with_replay(device, "mlp", "off", batches, record_property))


@pytest.mark.long
def test_a_replayed_job_draws_what_one_draws_that_runs_node_by_node(device, record_property):
    batches = dev.batches_of("cnn", REPLAYED)
    ours = train_with_replay(device, "cnn", "on", batches, record_property, draws=True)
    theirs = train_with_replay(device, "cnn", "off", batches, record_property, draws=True)
    assert ours.losses == pytest.approx(theirs.losses, rel=dev.LOSS_TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_a_replayed_job_trains_as_plain_pytorch_does(name, device, record_property):
    """With convolutions (cnn) and with embeddings (gpt)."""
    batches = dev.batches_of(name, REPLAYED)
    ours = train_with_replay(device, name, "on", batches, record_property)
    plain = dev.train_plain(name, batches)
    dev.assert_as_plain(ours, plain, dev.initial_state(name), record_property)


def test_many_in_flight_have_the_bits_of_one_at_a_time(device):
    batches = dev.batches_of("mlp", 30)
    with embedded(device) as service:
        with dev.make_step(service, "mlp", replay="off") as step:
            one_at_a_time = dev.train(step, batches)
        with dev.make_step(service, "mlp") as step:
            futures = [step.submit(*batch) for batch in batches]
            in_flight = dev.left(step, [future.result().item() for future in futures])
    dev.assert_same_bits(in_flight, one_at_a_time)


def test_jobs_side_by_side_do_not_disturb_each_other(device):
    """Each alone, then both from threads of their own, in lanes of their own."""
    batches = {seed: dev.batches_of("mlp", 12, seed) for seed in (1, 2)}
    with embedded(device) as service:
        alone = {}
        for seed in batches:
            with dev.make_step(service, "mlp", seed) as step:
                alone[seed] = dev.train(step, batches[seed])
    with embedded(device) as service:
        steps = {seed: dev.make_step(service, "mlp", seed) for seed in batches}
        for seed, step in steps.items():
            step.prepare(*batches[seed][0])
        with ThreadPoolExecutor(2) as pool:
            both = dict(zip(batches, pool.map(lambda s: dev.train(steps[s], batches[s]), batches)))
    for seed in batches:
        dev.assert_same_bits(both[seed], alone[seed])


def test_plain_pytorch_beside_a_job_disturbs_neither(device, record_property):
    """Torch's own allocator and stream on the device, while a job's lane has its own."""
    batches = dev.batches_of("mlp", 12)
    expected = dev.train_plain("mlp", batches)
    with embedded(device) as service, dev.make_step(service, "mlp") as step:
        step.prepare(*batches[0])
        with ThreadPoolExecutor(1) as pool:
            training = pool.submit(dev.train, step, batches)
            beside = dev.train_plain("mlp", batches)
            ours = training.result()
    dev.assert_same_bits(beside, expected)
    dev.assert_as_plain(ours, expected, dev.initial_state("mlp"), record_property)


def test_an_inference_uses_the_weights_of_now(device):
    batches = dev.batches_of("mlp", 3)
    work = models.make("mlp", 1)
    with embedded(device) as service:
        step = laneway.train_step(work.model, work.loss_fn, work.optimizer, service=service)
        predict = laneway.inference(step)
        for batch in batches:
            step(*batch)
        x = batches[0][0]
        answers = predict(x)
        step.sync_to(work.model, work.optimizer)
    with torch.no_grad():
        expected = work.model.to(dev.plain_device())(x.to(dev.plain_device())).cpu()
    assert torch.allclose(answers, expected, rtol=1e-4, atol=1e-5)


def test_an_index_out_of_range_is_refused_and_harms_nothing(device):
    """A kernel would stop the device for the whole process; it must not get that far."""
    batches = dev.batches_of("gpt", 4)
    with embedded(device) as service, dev.make_step(service, "gpt") as step:
        losses = [step(*batch).item() for batch in batches[:2]]
        ids, labels = batches[2]
        wrong = ids.clone()
        wrong[3, 5] = 256  # the vocabulary has 256: 0 to 255
        with pytest.raises(laneway.Error, match="256"):
            step(wrong, labels)
        with dev.make_step(service, "mlp") as other:
            dev.train(other, dev.batches_of("mlp", 2))
        losses += [step(*batch).item() for batch in batches[2:]]
    assert len(losses) == 4


def test_a_job_that_cannot_fit_is_refused_with_the_arithmetic(device):
    with embedded(device, pool="4MiB") as service:
        step = dev.make_step(service, "resnet18")
        with pytest.raises(laneway.Error, match=r"MiB"):
            step(*dev.batches_of("resnet18", 1)[0])


def test_lanes_with_partitions_of_their_own_train_as_those_without(device, record_property):
    batches = dev.batches_of("mlp", 6)
    with embedded(device) as service, dev.make_step(service, "mlp") as step:
        shared = dev.train(step, batches)
    try:
        service = embedded(device, lane_sms=16)
    except laneway.Error as error:
        pytest.skip(f"no partitions here: {error}")
    with service as opened, dev.make_step(opened, "mlp") as step:
        parted = dev.train(step, batches)
    # Libraries may divide a product otherwise among fewer multiprocessors.
    dev.assert_as_plain(parted, shared, dev.initial_state("mlp"), record_property)
