"""A policy of one's own under lanewayd: it decides, and whatever goes wrong with it costs nobody an
iteration: fifo decides, another process comes, and the status has the reason."""

import os
import signal
from pathlib import Path

import pytest

import laneway
from laneway.cli import view
from support.cli import run
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step
from support.policy_files import process_of, write_policy

SEED = 5
STEPS = 4
BY_ARRIVAL = "def rank(self, job, now):\n    return job.arrival"


@pytest.fixture
def start(tmp_path):
    """Starts a service with such a policy."""
    running = []

    def begin(body, options=""):
        file = write_policy(tmp_path / "mine.py", body)
        daemon = Lanewayd("--policy", f"{file}{options}")
        running.append(daemon)
        daemon.__enter__()
        return daemon

    yield begin
    for daemon in running:
        daemon.__exit__()


def wait_running(service, but=None):
    def found():
        process = process_of(service)
        return process if process["state"] == "running" and process["pid"] != but else None

    return wait_until(found, "a policy's process that decides")


def runs(pid):
    """One that ended stays as a zombie where nobody reaps orphans, as in some containers."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_undisturbed(service, pid):
    """Whether that process decides still; or it was late, on a machine that let it wait."""
    now = process_of(service)
    return now["pid"] == pid or "did not answer within" in (now["reason"] or "")


def train(service, between=lambda number: None):
    """Trains; the job's state is eager's, whatever the policy does."""
    batches = batches_of("mlp", SEED, STEPS)
    with make_step(service, "mlp", SEED) as step:
        losses = []
        for number, batch in enumerate(batches):
            between(number)
            losses.append(step(*batch).item())
        assert_same(eager_state("mlp", SEED, "default", batches), job_state(step, losses), "mlp")


def test_it_is_told_of_jobs_and_its_options_and_the_status_says_that_it_decides(start, tmp_path):
    seen = tmp_path / "seen"
    body = f"""
def __init__(self, options):
    self.options = options

def rank(self, job, now):
    with open({str(seen)!r}, "a") as file:
        print(job.name, job.user, self.options, file=file)
    return job.arrival
"""
    daemon = start(body, ":key=value:age=off")
    with daemon.connect() as service:
        process = wait_running(service)
        assert process["reason"] is None
        assert Path(f"/proc/{process['pid']}").exists()
        train(service)
        assert is_undisturbed(service, process["pid"])
        told = seen.read_text()
        assert "{'key': 'value'}" in told, "and not what the common rules take"
        assert service.status()["service"]["policy"].endswith("mine.py")
        process = wait_running(service)
    done = run("status", address=daemon.address)
    assert f"its process {process['pid']} decides" in done.stdout


FAULTS = {
    "throws": ("raise ValueError('mine is broken')", "exit code 1"),
    "exits": ("os._exit(7)", "exit code 7"),
    "hangs": ("signal.pause()", "did not answer"),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", "did not answer"),
    "floods memory": ("return len([bytes(1 << 24) for _ in range(1 << 20)])", "exit code 1"),
    "closes its descriptors": ("os.closerange(0, 64)\nsignal.pause()", "descriptor 3"),
    "writes to its descriptor": ("os.write(3, b'x' * 100)\nsignal.pause()", "descriptor 3"),
    "has no number": ("return 'first'", "exit code 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_goes_wrong_is_replaced_and_fifo_decides(start, fault):
    lines, reason = FAULTS[fault]
    body = "def rank(self, job, now):\n" + "\n".join(f"    {line}" for line in lines.split("\n"))
    daemon = start(body)
    with daemon.connect() as service:
        first = wait_running(service)["pid"]
        train(service)
        process = wait_until(
            lambda: (now := process_of(service))["pid"] != first and now["reason"] and now,
            "the end of the first process",
        )
        # The broker sees that it hung up before the supervisor sees it end, which may take long.
        ended = reason.startswith("exit code") and "descriptor 3, or ended" in process["reason"]
        assert reason in process["reason"] or ended
        # One that hung up has a moment to end by itself.
        wait_until(lambda: not Path(f"/proc/{first}").exists(), "the end of the first process")
    assert "fifo decides" in daemon.log()


def test_one_that_prints_is_heard_in_the_log_and_goes_on(start):
    daemon = start(
        "def rank(self, job, now):\n    print('a line of mine', flush=True)\n    return 0"
    )
    with daemon.connect() as service:
        process = wait_running(service)
        train(service)
        assert is_undisturbed(service, process["pid"])
        wait_until(lambda: "a line of mine" in daemon.log(), "what it printed")


def test_what_it_forked_ends_with_it(start, tmp_path):
    pids = tmp_path / "pids"
    body = f"""
def __init__(self, options):
    if os.fork() == 0:
        with open({str(pids)!r}, "a") as file:
            print(os.getpid(), file=file, flush=True)
        signal.pause()

{BY_ARRIVAL}
"""
    daemon = start(body)
    with daemon.connect() as service:
        first = wait_running(service)["pid"]
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), "its child")
        child = int(pids.read_text().split()[0])
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not runs(child), "the end of its child")
        assert "signal 9" in wait_running(service, but=first)["reason"]
        train(service)


def test_one_that_changed_on_disk_goes_on_and_its_successor_is_the_new_one(start, tmp_path):
    daemon = start(BY_ARRIVAL)
    with daemon.connect() as service:
        first = wait_running(service)["pid"]
        write_policy(tmp_path / "mine.py", "def rank(self, job, now):\n    os._exit(8)")
        train(service)
        assert is_undisturbed(service, first)
        if process_of(service)["pid"] == first:
            os.kill(first, signal.SIGKILL)
        wait_running(service, but=first)
        train(service)
        ends = ("exit code 8", "descriptor 3, or ended")
        wait_until(
            lambda: any(end in (process_of(service)["reason"] or "") for end in ends),
            "the new one",
        )


def test_one_that_others_may_write_meanwhile_is_not_started_again(start, tmp_path):
    daemon = start(BY_ARRIVAL)
    with daemon.connect() as service:
        first = wait_running(service)["pid"]
        (tmp_path / "mine.py").chmod(0o777)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: "chmod go-w" in (process_of(service)["reason"] or ""), "the refusal")
        assert process_of(service)["state"] == "stopped"
        train(service)


@pytest.mark.parametrize("victim", ["broker", "active_worker"])
def test_a_broker_or_worker_killed_beside_it_finds_one_that_decides(start, victim):
    daemon = start(BY_ARRIVAL)
    with daemon.connect() as service:
        first = wait_running(service)["pid"]

        def kill(number):
            if number == 2:
                daemon.kill(getattr(daemon, victim)())

        train(service, kill)
        process = wait_running(service)
        # A broker has one of its own; a worker's end is none of its business.
        if victim == "active_worker":
            assert is_undisturbed(service, first)
        else:
            assert process["pid"] != first
        train(service)


def test_a_running_service_takes_one_by_a_path_from_here_and_ends_it_with_the_next(tmp_path):
    write_policy(tmp_path / "mine.py", BY_ARRIVAL)
    write_policy(tmp_path / "open.py", BY_ARRIVAL, mode=0o775)
    with Lanewayd() as daemon, daemon.connect() as service:
        assert process_of(service) is None
        done = run("policy", "./mine.py:age=off", address=daemon.address, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        pid = wait_running(service)["pid"]
        train(service)
        refused = run("policy", "./open.py", address=daemon.address, folder=tmp_path)
        assert refused.returncode == 4
        assert "open.py" in refused.stderr
        assert "chmod go-w" in refused.stderr
        assert is_undisturbed(service, pid)
        pid = wait_running(service)["pid"]
        assert run("policy", "srtf", address=daemon.address).returncode == 0
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its end")
        assert process_of(service) is None


def test_embedded_mode_starts_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_policy(tmp_path / "mine.py", BY_ARRIVAL)
    with laneway.embedded(pool="256MiB", policy="./mine.py") as service:
        first = wait_running(service)["pid"]
        train(service)
        os.kill(first, signal.SIGSTOP)
        train(service)
        process = wait_running(service, but=first)
        assert "did not answer" in process["reason"]
        train(service)
        service.command("policy", "srtf")
        assert process_of(service) is None
        wait_until(lambda: not Path(f"/proc/{process['pid']}").exists(), "its end")
        service.command("policy", "./mine.py")
        last = wait_running(service)["pid"]
    assert not Path(f"/proc/{last}").exists()


def test_embedded_mode_refuses_a_file_that_others_may_write(tmp_path):
    file = write_policy(tmp_path / "mine.py", BY_ARRIVAL, mode=0o775)
    with pytest.raises(laneway.Error, match="chmod go-w"):
        laneway.embedded(pool="256MiB", policy=str(file))


def test_the_table_says_who_decides_and_what_became_of_the_last_process():
    def text(state, pid, reason):
        return view.policy_process_text({"state": state, "pid": pid, "reason": reason})

    assert text("running", 7, None) == "its process 7 decides"
    assert text("running", 7, "it was late") == "its process 7 decides; the one before: it was late"
    assert text("stopped", None, "it was late") == "fifo decides, its process does not: it was late"
