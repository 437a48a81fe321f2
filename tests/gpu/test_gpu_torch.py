"""What depends on torch's version on a GPU: how a recording draws, who keeps the workspaces of
libraries, and torch's own CUDA graphs while a job computes and is recorded."""

from concurrent.futures import ThreadPoolExecutor

import device as dev
import pytest
import torch

from bench.gpu import laneway_device

RECORDED = 12  # iterations: enough for a recording to be made and used
GRAPHS = 20  # of torch's, made and launched while a job trains


@pytest.fixture(autouse=True)
def records(device):
    if device == "host":
        pytest.skip("the host's iterations are not recorded")


def trained(device, name, batches, seeds=(1,), draws=False, replay="on", record=None):
    """Jobs of these seeds, each from a thread of its own, in lanes of their own."""
    with dev.reporting(laneway_device.embedded(device, dev.POOL, len(seeds))) as service:
        steps = []
        for seed in seeds:
            steps.append(dev.make_step(service, name, seed, replay, draws, "own"))
            steps[-1].prepare(*batches[0])  # before the next one is seeded
        with ThreadPoolExecutor(len(steps)) as pool:
            found = list(pool.map(lambda step: dev.train(step, batches), steps))
        for step in steps:
            if record:
                dev.note_replay(service, step, record)
            step.close()
    return found


@pytest.mark.long
def test_recordings_of_two_lanes_draw_each_from_its_own_generator(device, record_property):
    """Torch keeps what a recording draws from by its generator, from 2.12 on by the recording."""
    batches = dev.batches_of("cnn", RECORDED)
    recorded = trained(device, "cnn", batches, (1, 2), draws=True, record=record_property)
    by_node = trained(device, "cnn", batches, (1, 2), draws=True, replay="off")
    for ours, theirs in zip(recorded, by_node, strict=True):
        assert ours.losses == pytest.approx(theirs.losses, rel=dev.LOSS_TOLERANCE)
    assert recorded[0].losses != recorded[1].losses


def test_workspaces_of_libraries_stay_nowhere(device, record_property):
    """Products of matrices take one each. Torch keeps it for the thread, from 2.15 on only where it
    is told to: either way it is a lane's, so that torch's allocator has as much as before."""
    batches = dev.batches_of("gpt", RECORDED)
    cuda = torch.cuda.is_available()
    before = torch.cuda.memory_allocated(device) if cuda else 0
    (recorded,) = trained(device, "gpt", batches, record=record_property)
    (by_node,) = trained(device, "gpt", batches, replay="off")
    after = torch.cuda.memory_allocated(device) if cuda else 0
    record_property("left_in_torch_bytes", after - before)
    assert after == before
    assert recorded.losses == pytest.approx(by_node.losses, rel=dev.LOSS_TOLERANCE)


def test_cuda_graphs_of_torch_and_a_job_disturb_neither(device, record_property):
    """Each of torch's recordings clears the workspaces that torch keeps, and draws."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no device, so it records nothing")
    batches = dev.batches_of("mlp", RECORDED)
    (alone,) = trained(device, "mlp", batches, record=record_property)
    expected = graph_of_torch(device)
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(trained, device, "mlp", batches)
        beside = [graph_of_torch(device) for _ in range(GRAPHS)]
        (ours,) = training.result()
    dev.assert_as_plain(ours, alone, dev.initial_state("mlp"), record_property)
    assert all(torch.equal(found, expected) for found in beside)


def graph_of_torch(device):
    """What a CUDA graph of torch's computes and draws at its second launch."""
    torch.cuda.manual_seed(7)
    x = torch.linspace(-1, 1, 128 * 128, device=device).reshape(128, 128)
    graph = torch.cuda.CUDAGraph()
    # Other threads may allocate and wait meanwhile, as those of a service do.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = torch.nn.functional.dropout(x @ x, 0.5)
    graph.replay()
    graph.replay()
    torch.cuda.current_stream(device).synchronize()
    return y.cpu()
