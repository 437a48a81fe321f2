"""What the benches ask of the engine, asked of a small real job: equal bits, tapes, places."""

import pytest

from bench import memory
from bench.tapes import Tape
from bench.worker import Worker


def make(name, runner):
    return {
        "name": name,
        "seed": 0,
        "form": "default",
        "runner": runner,
        "threads": 1,
        "cores": [],
    }


@pytest.mark.parametrize("runner", ["embedded", "embedded_inflight2"])
def test_the_measured_variants_train_to_the_bits_of_eager(runner):
    """With dropout and batch-norm, through the very workers that are timed."""
    with Worker(make("cnn", "eager")) as eager, Worker(make("cnn", runner)) as ours:
        eager.make()
        ours.make()
        for count in (1, 4):
            assert len(eager.trial(count)["times_ns"]) == len(ours.trial(count)["times_ns"])
        assert eager.digest() == ours.digest()


def test_a_jobs_tape_bounds_its_plan_and_its_addresses_stay():
    """The bound worked out here is the service's, and no plan is below it. More iterations than
    one chunk, so that chunks add up."""
    with Worker(make("mlp", "embedded")) as worker:
        worker.make()
        worker.trial(3)
        assert worker.addresses(70) == {"changes": 0, "off_tape": 0, "done": 70}
        graph = worker.report()["graphs"][0]
    tape = Tape.of(graph["tape"])
    assert len(tape.allocations) > 10 and sorted(tape.frees) == list(range(len(tape.allocations)))
    assert tape.live_bound() == graph["bound_bytes"] <= graph["planned_peak_bytes"]


def test_the_memory_probe_sees_a_jobs_bytes_in_the_pool():
    found = memory.probe("cnn", "6", threads=1)
    assert "error" not in found, found
    p, e = found["persistent_bytes"], found["ephemeral_bytes"]
    parameters = (9 * 16 + 16) + 2 * 16 + (9 * 16 * 32 + 32) + 2 * 32 + (32 * 49 * 10 + 10)
    assert p >= 2 * 4 * parameters, "parameters and momentum at least"
    assert 0 < found["resident_bytes"] <= p + e
    assert len(found["anonymous_bytes"]) == 6
