"""A lanewayd on a device that is not the host: refused in words where there is none; and over the
remote host (tests/remote_backend), whose memory the worker cannot reach, jobs have eager's bits,
also when the worker that ran them is killed."""

import os
import subprocess

import pytest

import laneway
from laneway.native.programs import program
from support.daemon import DEADLINE_S
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.remote_host import RemoteLanewayd, needs_remote_host

SEED = 7
STEPS = 5


def lanewayd(*words, **environment):
    """One that is expected to end by itself."""
    return subprocess.run(
        [str(program("lanewayd")), *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_a_device_that_is_not_there_is_refused_in_words(tmp_path):
    tmp_path.chmod(0o700)
    missing = str(tmp_path / "none.so")
    ended = lanewayd(
        *("--address", f"ipc://{tmp_path}/laneway.sock", "--device", "cuda:0"),
        LANEWAY_CUDA_PLUGIN=missing,
    )
    assert ended.returncode == 2, ended.stderr
    assert "lanewayd: --device cuda:0: " in ended.stderr
    assert missing in ended.stderr


def test_the_kind_of_a_device_names_its_plugin(tmp_path):
    tmp_path.chmod(0o700)
    ended = lanewayd(
        *("--address", f"ipc://{tmp_path}/laneway.sock", "--device", "xpu:0"),
        LANEWAY_CUDA_PLUGIN=str(tmp_path / "none.so"),
    )
    assert ended.returncode == 2, ended.stderr
    assert "lanewayd: --device xpu:0: " in ended.stderr
    assert "liblaneway_xpu.so" in ended.stderr
    assert "LANEWAY_XPU_PLUGIN" in ended.stderr
    assert "none.so" not in ended.stderr


def test_a_device_of_no_kind_is_refused_at_once():
    ended = lanewayd("--device", "../cuda:0")
    assert ended.returncode == 2
    assert "--device ../cuda:0: use 'host', 'cuda:N', or 'KIND:N'" in ended.stderr


def test_multiprocessors_of_the_host_are_refused_in_words():
    ended = lanewayd("--lane-sms", "8")
    assert ended.returncode == 2
    assert "the host has no multiprocessors" in ended.stderr


@pytest.fixture
def remote():
    with RemoteLanewayd() as running:
        yield running


def check(batches, step, losses):
    assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses), "mlp")


@needs_remote_host
def test_jobs_of_a_daemon_on_a_device_have_eagers_bits(remote):
    batches = batches_of("mlp", SEED, STEPS)
    with remote.connect() as service:
        status = service.status()["service"]
        assert status["device"] == "cuda:0"
        assert status["kernels"] == service.kernels
        with make_step(service, "mlp", SEED) as step:
            futures = [step.submit(*batch) for batch in batches]
            losses = [future.result(DEADLINE_S).item() for future in futures]
            check(batches, step, losses)


@needs_remote_host
def test_an_idle_worker_of_a_device_killed_twice_is_not_noticed(remote):
    batches = batches_of("mlp", SEED, STEPS)
    with remote.connect() as service, make_step(service, "mlp", SEED) as step:
        losses = []
        for number, batch in enumerate(batches):
            if number in (2, 4):
                remote.kill(remote.active_worker())
            losses.append(step(*batch).item())
        check(batches, step, losses)


@needs_remote_host
@pytest.mark.parametrize("point", ["worker.iteration_begun:3", "worker.done_published:2"])
def test_a_worker_of_a_device_that_dies_in_mid_iteration_is_followed(point):
    """Before the first write to the job's state, and behind the answer."""
    batches = batches_of("mlp", SEED, STEPS)
    with (
        RemoteLanewayd(environment={"LANEWAY_FAULT": point}) as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        losses = [step(*batch).item() for batch in batches]
        check(batches, step, losses)
        assert "ended: " in daemon.log(), "the worker was killed at the point"


@needs_remote_host
def test_a_worker_of_a_device_killed_while_iterations_are_in_the_air():
    """Its job goes on with eager's bits, or is lost and says why."""
    batches = batches_of("mlp", SEED, 30)
    with (
        RemoteLanewayd() as daemon,
        daemon.connect() as service,
        make_step(service, "mlp", SEED) as step,
    ):
        futures = [step.submit(*batch) for batch in batches[:20]]
        daemon.kill(daemon.active_worker())
        futures += [step.submit(*batch) for batch in batches[20:]]
        try:
            losses = [future.result(DEADLINE_S).item() for future in futures]
            check(batches, step, losses)
        except laneway.JobFailed as error:
            assert "died" in str(error) and "state_dict" in str(error)
