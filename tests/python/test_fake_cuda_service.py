"""Services on a CUDA device, the fake one: the whole way of jobs through it, in this process and
through a lanewayd. Its kernels do nothing, so a job's state is known to the bit at any time (see
support/fake_training.py): moving it in and out, killing workers and losing the device are checked
on it, and that nothing of the device is left or was used wrongly."""

import os

import pytest

import laneway
from laneway.errors import DeviceLost, JobFailed, Refused
from support import cli, fake_cuda
from support.daemon import Lanewayd, wait_until
from support.fake_cuda import on_fake
from support.fake_training import KINDS, Trial, rounds

pytestmark = pytest.mark.embedded_only("opens services of its own")

TRIALS = """
from support.fake_training import KINDS, Trial, rounds
import threading

def together(*functions):
    errors = []
    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
"""


def test_models_of_all_kinds_train_in_turn_and_leave_nothing():
    on_fake(
        TRIALS,
        """
        torch.cuda.init()
        for _ in range(2):
            with laneway.embedded(device="cuda:0", pool="64MiB") as service:
                trials = [Trial(service, kind) for kind in KINDS]
                rounds(trials, 6)
                for trial in trials:
                    trial.check()
            assert count("cublas without workspace") == 0
            for kind in ("streams", "events", "pinned", "green", "graphs", "executables"):
                assert live(kind) == 0, (kind, live(kind))
            torch.cuda.empty_cache()  # torch keeps freed memory
            assert fake.fake_cuda_used() == 0
        assert not complaints(), complaints()
        """,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_that_do_not_fit_together_keep_their_state(seed):
    on_fake(
        TRIALS,
        """
        def train():
            trial = Trial(service, "mlp")
            for _ in range(3):
                trial.train(4).check()

        with laneway.embedded(device="cuda:0", pool="1MiB") as service:
            errors = together(*[train] * 4)
        assert not errors, errors
        assert not complaints(), complaints()
        """,
        environment={"FAKE_CUDA_SEED": str(seed), "FAKE_CUDA_DELAY_US": "100"},
    )


def test_lanes_with_multiprocessors_of_their_own():
    on_fake(
        TRIALS,
        """
        with laneway.embedded(device="cuda:0", pool="64MiB", lanes=2, lane_sms=24) as service:
            trials = [Trial(service, "mlp") for _ in range(2)]
            assert not together(*(lambda t=t: t.train(5).check() for t in trials))
            assert live("green") == 132 // 24
        assert live("green") == 0 and live("streams") == 0
        assert not complaints(), complaints()
        """,
    )


def test_a_lost_device_ends_every_job_of_its_service_in_words():
    on_fake(
        TRIALS,
        """
        from laneway.errors import DeviceLost

        with laneway.embedded(device="cuda:0", pool="64MiB") as service:
            trials = [Trial(service, kind).train(2) for kind in ("mlp", "lstm")]
            fake.fake_cuda_fail_kernel(b"gemm", 710)
            errors = together(*(lambda t=t: t.train(20) for t in trials))
            assert [type(error) for error in errors] == [DeviceLost, DeviceLost], errors
            assert all("CUDA_ERROR_ASSERT" in str(error) for error in errors), errors
        """,
    )


class FakeLanewayd(Lanewayd):
    """A lanewayd on the fake. Its clients, this process among them, see no GPU."""

    def __init__(self, *words: str, environment: dict[str, str] | None = None) -> None:
        fake = {"LD_PRELOAD": str(fake_cuda.library())}
        super().__init__("--device", "cuda:0", *words, environment=fake | (environment or {}))


def test_jobs_of_a_daemon_survive_its_workers():
    with FakeLanewayd() as daemon, daemon.connect() as service:
        about = service.status()["service"]
        assert (about["device"], about["kernels"], service.kernels) == ("cuda:0", "cuda", "cuda")
        trials = [Trial(service, kind) for kind in KINDS]
        for _ in range(3):
            rounds(trials, 4)
            # The second worker is ready to take over: what is lost is the first one alone.
            wait_until(lambda: len(daemon.children("laneway-worker")) == 2, "a standby worker")
            daemon.kill(daemon.active_worker())
        rounds(trials, 1)
        for trial in trials:
            trial.check()
        assert "fake CUDA" not in daemon.log(), daemon.log()


@pytest.mark.parametrize(
    "point", ["worker.range_enqueued:9", "worker.mark_enqueued:6", "worker.slot_written:6"]
)
def test_a_worker_killed_while_the_device_saves_what_is_overwritten_is_followed(point):
    """By the stream's order, also while its iterations are recorded and replayed."""
    faults = {"LANEWAY_FAULT": point}
    words = ("--recovery", "undo", "--standby", "0")
    with FakeLanewayd(*words, environment=faults) as daemon, daemon.connect() as service:
        trial = Trial(service, "mlp").train(9)
        trial.check()
        assert daemon.log().count("ended: signal 9") == 1
        assert "fake CUDA" not in daemon.log(), daemon.log()


def test_an_operator_is_told_why_a_job_is_not_recorded():
    with FakeLanewayd(environment={"FAKE_CUDA_FORBID": "replay"}) as daemon:
        with daemon.connect() as service:
            trial = Trial(service, "mlp", replay="on").train(8)
            trial.check()
            told = cli.run("report", trial.step.name, address=daemon.address)
        assert told.returncode == 0, told.stderr
        assert "is not recorded: beginning to record a CUDA graph: cudaError" in told.stdout


def test_a_device_assert_takes_down_one_worker_and_blames_its_job():
    with FakeLanewayd(environment={"FAKE_CUDA_FAULT_AFTER": "300"}) as daemon:
        with daemon.connect() as service:
            with pytest.raises(DeviceLost, match="CUDA_ERROR_ASSERT"):
                Trial(service, "mlp").train(100)
            Trial(service, "mlp").train(2).check()
        assert daemon.process.poll() is None


def test_a_device_that_fails_in_every_worker_ends_each_job_in_words():
    """While its state is copied there: with the first worker it may be chance."""
    with FakeLanewayd(environment={"FAKE_CUDA_FAULT_AFTER": "3"}) as daemon:
        with daemon.connect() as service:
            for _ in range(2):
                with pytest.raises(DeviceLost, match=r"while memory of job .* not tried again"):
                    Trial(service, "mlp").train(1)
        assert daemon.process.poll() is None
        assert daemon.log().count("because its device failed") == 4


def test_a_device_that_fails_while_its_pool_is_made_is_refused_in_words():
    daemon = FakeLanewayd(environment={"FAKE_CUDA_FAULT_AFTER": "0"})
    with (
        pytest.raises(AssertionError, match="clearing memory on cuda:0: CUDA_ERROR_ASSERT"),
        daemon,
    ):
        pass


def test_where_memory_cannot_be_shared_jobs_outlive_their_worker_by_snapshots():
    with (
        FakeLanewayd(environment={"FAKE_CUDA_FORBID": "fd"}) as daemon,
        daemon.connect() as service,
    ):
        trial = Trial(service, "mlp").train(2)
        daemon.kill(daemon.active_worker())
        trial.train(5).check()


def test_where_memory_cannot_be_shared_and_nothing_is_kept_jobs_end_with_their_worker():
    with (
        FakeLanewayd("--recovery-memory", "0", environment={"FAKE_CUDA_FORBID": "fd"}) as daemon,
        daemon.connect() as service,
    ):
        trial = Trial(service, "mlp").train(2)
        daemon.kill(daemon.active_worker())
        with pytest.raises(JobFailed, match="cannot share it between processes"):
            trial.train(5)
        Trial(service, "mlp").train(2).check()


def test_without_a_device_a_daemon_refuses_in_words():
    daemon = FakeLanewayd(environment={"FAKE_CUDA_FORBID": "device"})
    with pytest.raises(AssertionError, match="this machine has no CUDA device"), daemon:
        pass


def test_an_embedded_service_without_a_driver_refuses_in_words():
    assert not os.environ.get("LD_PRELOAD")
    with pytest.raises(Refused, match=r"libcuda\.so\.1"):
        laneway.embedded(device="cuda:0", pool="64MiB")


def test_a_runtime_of_another_cuda_is_refused_by_both_versions():
    """The build of torch for another CUDA passes for the same torch where no device is used."""
    on_fake(
        """
        try:
            laneway.embedded(device="cuda:0", pool="64MiB")
        except laneway.errors.Error as error:
            assert "was built for CUDA" in str(error), error
            assert "brings the runtime of CUDA 12" in str(error), error
        else:
            raise AssertionError("it was opened")
        with laneway.embedded(pool="64MiB") as service:
            job = laneway.inference(torch.nn.Linear(4, 4), service=service, name="one")
            assert job(torch.ones(1, 4)).shape == (1, 4)
        """,
        environment={"FAKE_CUDA_RUNTIME_VERSION": "12080"},
    )
