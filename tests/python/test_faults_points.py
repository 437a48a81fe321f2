"""A broker, or a worker, is killed at every step of a job's life, one step a test. Two jobs train,
one of them is also asked by an inference, has its state read and written, and is closed; whatever
was killed in the middle, their state is eager PyTorch's, bit for bit."""

import pytest

import laneway
from bench import models
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, make_step
from support.fault_points import fault_points

SEED = 3
STEPS = 4
NAMES = ("mlp", "cnn")

# Passed in every iteration: killed in the first, which is the probe, and in a later one.
EVERY_ITERATION = {
    "worker.submission_taken",
    "worker.iteration_begun",
    "worker.commit_entered",
    "worker.range_copied",
    "worker.range_saved",
    "worker.request_logged",
    "worker.slot_written",
    "worker.commit_written",
    "worker.done_published",
}
# Passed where states are kept by snapshots.
SNAPSHOTS = {"worker.snapshot_part", "worker.snapshot_taken", "worker.request_logged"}
# Passed by the successor of a worker that died, or where a guest writes the state: killed in
# tests/service/worker_process/worker_recovery_test.cc.
OF_SUCCESSORS = {
    "worker.job_released",  # test_faults_blame.py
    "worker.weights_part",  # test_weight_files.py
    "worker.image_copied",  # test_residency.py, as the next four
    "worker.image_saved",
    "worker.image_left",
    "worker.image_moving",
    "worker.image_moved",
    "worker.lane_changed",  # test_lane_changes.py
    "worker.pausing",  # test_preemption.py, as the next three
    "worker.paused",
    "worker.resuming",
    "worker.resumed",
    "worker.range_enqueued",  # on devices: test_faults_device.py
    "worker.mark_enqueued",
    "worker.range_restored",
    "worker.snapshot_restored",
    "worker.request_redone",
    "worker.state_restored",
    "worker.write_saved",
    "worker.preparing",  # by a standby: test_faults_standby.py
}
BROKER = [f"{point}:1" for point in fault_points("broker")]
WORKER = [
    f"{point}:{nth}"
    for point in fault_points("worker")
    if point not in OF_SUCCESSORS
    for nth in ((1, 4) if point in EVERY_ITERATION else (1,))
]


class Life:
    """Two jobs from their first message to their last; a job that is lost stands in `lost`."""

    def __init__(self, service):
        self.batches = {name: batches_of(name, SEED, STEPS + 1) for name in NAMES}
        self.losses = {name: [] for name in NAMES}
        self.states = {}
        self.lost = {}
        self.steps = {name: make_step(service, name, SEED) for name in NAMES}
        for number in range(STEPS):
            self.each(lambda name, number=number: self.train(name, number))
        self.each(self.write_back)
        self.answer = None
        self.each(self.ask, ["mlp"])
        self.each(lambda name: self.train(name, STEPS))
        self.each(self.look)
        for step in self.steps.values():
            step.close()

    def each(self, action, names=NAMES):
        for name in names:
            if name in self.lost:
                continue
            try:
                action(name)
            except laneway.JobFailed as error:
                self.lost[name] = str(error)

    def train(self, name, number):
        self.losses[name].append(self.steps[name](*self.batches[name][number]).item())

    def write_back(self, name):
        self.steps[name].load_state_dict(self.steps[name].state_dict())

    def ask(self, name):
        self.answer = laneway.inference(self.steps[name])(self.batches[name][0][0])

    def look(self, name):
        self.states[name] = {"losses": self.losses[name], **self.steps[name].state_dict()}

    def check(self, name):
        assert_same(eager_state(name, SEED, "default", self.batches[name]), self.states[name], name)


def eager_answer(batches):
    twin = models.make("mlp", SEED)
    twin.model.load_state_dict(eager_state("mlp", SEED, "default", batches[:STEPS])["model"])
    return twin.model.eval()(batches[0][0]).detach()


def live(program, point, *options):
    """The life, with the program killed at the point; all jobs are gone afterwards."""
    with Lanewayd(*options, environment={"LANEWAY_FAULT": point}) as daemon:
        with daemon.connect() as service:
            life = Life(service)
            wait_until(lambda: service.status()["pool"]["persistent_bytes"] == 0, "empty pool")
        assert f"{program} " in daemon.log() and "ended: signal 9" in daemon.log(), (
            f"{point} was not passed: the life of these jobs does not go there"
        )
        return life


@pytest.mark.parametrize("point", BROKER)
def test_a_broker_killed_at_any_step_changes_nothing(point):
    life = live("broker", point)
    assert life.lost == {}
    for name in NAMES:
        life.check(name)
    assert_same(eager_answer(life.batches["mlp"]), life.answer)


@pytest.mark.parametrize("point", WORKER)
def test_a_worker_killed_at_any_step_changes_nothing(point):
    snapshots = point.split(":")[0] in SNAPSHOTS
    life = live("worker", point, *(("--recovery", "snapshot:2") if snapshots else ()))
    assert life.lost == {}
    for name in NAMES:
        life.check(name)


@pytest.mark.parametrize("point", ["worker.commit_entered:1", "worker.slot_written:4"])
def test_without_memory_for_it_a_job_that_was_writing_is_lost_and_says_so(point):
    life = live("worker", point, "--recovery-memory", "0")
    ((_, message),) = life.lost.items()
    assert "died" in message and "state_dict" in message
    for name in NAMES:
        if name not in life.lost:
            life.check(name)


def test_every_program_has_points():
    assert len(BROKER) >= 8 and len(WORKER) >= 8
    assert set(fault_points("worker")) >= OF_SUCCESSORS | SNAPSHOTS | EVERY_ITERATION
