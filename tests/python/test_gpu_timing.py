"""What is timed of plain PyTorch on a device, in which order: its calls of torch.cuda go to
stand-ins here, its tensors to the CPU."""

import contextlib

import pytest
import torch

from bench.gpu import link
from bench.gpu.runners import PlainAhead, PlainOnDevice
from bench.models import make


@pytest.fixture
def calls(monkeypatch):
    """The order in which a device is given work and waited for."""
    told = []

    class Event:
        def record(self):
            told.append("record")

        def synchronize(self):
            told.append("wait")

    class Stream:
        def synchronize(self):
            told.append("wait")

    def on_cpu(make_tensor):
        def made(*size, device=None, pin_memory=False, **more):
            return make_tensor(*size, **more)

        return made

    for name in ("zeros", "empty", "randn"):
        monkeypatch.setattr(torch, name, on_cpu(getattr(torch, name)))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: told.append("wait for all"))
    return told


def runner_of(kind, calls, monkeypatch):
    """A runner that believes its device is a GPU, and tells of its iterations."""
    runner = kind(make("mlp"), "cpu")
    runner.is_cuda = True
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor.clone())
    iteration = runner.iteration

    def told(batch):
        calls.append("launch")
        return iteration(batch)

    runner.iteration = told
    return runner


def test_two_iterations_are_under_way_and_losses_are_read_in_their_order(calls, monkeypatch):
    runner = runner_of(PlainAhead, calls, monkeypatch)
    times = runner.run(runner.ready(runner.work.batch(i) for i in range(4)))
    assert len(times) == 4 and min(times) > 0
    begun = ["launch", "record"]
    assert calls == [*begun, *begun, "wait", *begun, "wait", *begun, "wait", "wait"]


def test_batches_are_in_pinned_memory_before_the_clock_runs(calls, monkeypatch):
    runner = runner_of(PlainOnDevice, calls, monkeypatch)
    given = [runner.work.batch(0)]
    ready = runner.ready(given)
    assert all(a is not b for a, b in zip(ready[0], given[0]))
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda tensor: pytest.fail("pinned while timed")
    )
    assert len(runner.run(ready)) == 1


@pytest.mark.parametrize("case", ["pinned", "pageable", "pinned_under_compute"])
def test_copies_are_timed_between_waits(case, calls, monkeypatch):
    monkeypatch.setattr(link, "PRODUCT", 16)
    copied = []
    real = torch.Tensor.copy_
    monkeypatch.setattr(
        torch.Tensor,
        "copy_",
        lambda to, source, **more: (copied.append(len(to)), calls.append("copy"), real(to, source)),
    )
    times = link._torch_rates("cuda:0", case, [4096, 8192], 1e-4)
    assert set(times) == {(d, size) for d in link.DIRECTIONS for size in (4096, 8192)}
    assert all(len(found) == 5 and min(found) > 0 for found in times.values())
    assert copied[: link.WARM_UP] == [8192] * link.WARM_UP
    # Each batch: copies, then a wait for them, then one for what ran beside.
    ends = [i for i, call in enumerate(calls) if call == "wait for all" and "copy" in calls[:i]]
    assert len(ends) == 5 * len(times)
    assert all(calls[i - 2 : i] == ["copy", "wait"] for i in ends)
