"""Workers that die while they write states in a device's memory, which the CPU does not reach: the
old bytes and the mark behind them lie where the device's own order left them, and the successor
leads to eager's bits. On the remote host, whose kernels are the CPU's."""

import pytest

from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.fault_points import fault_points
from support.remote_host import RemoteLanewayd, needs_remote_host

pytestmark = needs_remote_host

SEED = 7
STEPS = 6


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("worker.range_enqueued:1", ""),
        ("worker.range_enqueued:20", ""),
        ("worker.mark_enqueued:1", ""),
        ("worker.mark_enqueued:3", ""),
        ("worker.commit_entered:2", ""),
        ("worker.slot_written:3", ""),
        ("worker.commit_written:2", ""),
        ("worker.slot_written:3", "worker.range_restored:2;"),
        ("worker.slot_written:3", "worker.state_restored;"),
    ],
)
def test_a_worker_killed_while_it_undoes_by_the_devices_order_changes_nothing(first, second):
    """The second point is the successor's; those after it have none."""
    for point in (first, second.strip(";")):
        assert not point or point.split(":")[0] in fault_points("worker")
    faults = {"LANEWAY_FAULT": first, "LANEWAY_FAULT_AGAIN": second}
    words = ("--recovery", "undo", "--standby", "0")
    batches = batches_of("mlp", SEED, STEPS)
    with (
        RemoteLanewayd(*words, environment=faults) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches]
        recovery = service.job_report(f"mlp-{SEED}")["recovery"]
        assert recovery["method"] == "undo" and recovery["missing"] is None
        assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses), "mlp")
        assert daemon.log().count("ended: signal 9") == (2 if second else 1)
