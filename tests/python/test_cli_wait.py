"""`laneway wait`: it returns when the job has ended, says how, and shows its progress to terminals
only."""

import json
import os
import signal
import sys

import pytest
import torch
from torch import nn

import laneway
from laneway.cli import watching
from laneway.cli.screen import Screen
from support.cli import run
from support.daemon import Lanewayd
from support.status_lines import job, waits
from support.terminal import OnTerminal


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture
def service(daemon):
    with daemon.connect() as opened:
        yield opened


def small_job(service, name):
    predict = laneway.inference(nn.Linear(4, 2), service, name=name)
    predict(torch.ones(1, 4))
    return predict


def test_it_returns_when_the_job_has_finished(daemon, service):
    predict = small_job(service, "short")
    with OnTerminal("wait", "short", "--address", daemon.address) as running:
        running.until("1 iterations")  # it waits by now
        predict.close()
        assert running.rest() == 0
    assert running.text.splitlines()[-1].endswith("(short) has finished after 1 iterations")
    done = run("wait", "short", "--json", address=daemon.address)  # ended before
    assert done.returncode == 0 and done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["state"], document["iterations"]) == ("finished", 1)


def test_a_job_that_is_killed_is_1_with_the_sentence(daemon, service):
    predict = small_job(service, "7")
    with OnTerminal("wait", "--name", "7", "--address", daemon.address) as running:
        running.until("1 iterations")
        assert run("kill", "--name", "7", address=daemon.address).returncode == 0
        assert running.rest() == 1
    assert "(7) was cancelled after 1 iterations" in running.text
    predict.close()


def test_a_job_that_has_not_ended_in_time_is_1(daemon, service):
    predict = small_job(service, "long")
    done = run("wait", "long", "--timeout", "0.05", address=daemon.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "(long) has not ended after 0.05 s, and is " in done.stderr
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    predict.close()


def test_ctrl_c_is_130(daemon, service):
    predict = small_job(service, "held")
    words = ("wait", "held", "--address", daemon.address)
    with OnTerminal(*words, errors_only=True, columns=30) as running:
        running.until("1 iterations")
        running.process.send_signal(signal.SIGINT)
        assert running.rest() == 130
        assert "Traceback" not in running.text and running.text.endswith("\r\x1b[K")
    predict.close()


def test_no_such_job_is_4_and_the_end_of_the_service_3():
    done = run("wait", "1", "--timeout", "0")
    assert done.returncode == 2
    with Lanewayd() as daemon, daemon.connect() as service:
        done = run("wait", "nobody", address=daemon.address)
        assert done.returncode == 4 and "nobody" in done.stderr
        predict = small_job(service, "last")
        with OnTerminal("wait", "last", "--address", daemon.address) as running:
            running.until("1 iterations")
            daemon.process.send_signal(signal.SIGTERM)
            daemon.process.wait()
            assert running.rest() == 3
            assert "has ended" in running.text
        predict.close()


def test_what_a_line_of_progress_says(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    first = job(iterations=100)
    progress = watching._Progress(Screen(sys.stdout), first, begin=10.0)
    assert progress._text(first, 10.0) == "running, 100 iterations"
    later = job(iterations=300, total_iterations=1100)
    assert progress._text(later, 20.0) == (
        "running, 27 %, 300 of 1,100, 20.0 a second, some 40.0 s left"
    )
    told = progress._text(waits("no room", iterations=100), 20.0)
    assert told == "waiting, 100 iterations; no room; since 1 min 15 s"


class Watched:
    """A service whose status is the next of these."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)

    def status(self):
        return {"jobs": self.statuses.pop(0)}


def test_a_quarantine_is_said_and_a_job_that_is_gone_is_no_success(monkeypatch, capsys):
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: None)
    arguments = type("Arguments", (), {"ref": "1", "timeout": None, "json": False})
    held = job(state="quarantined")
    assert watching.wait(Watched([held], [held], []), arguments) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("is quarantined, and waited for") == 1
    assert "does not list it any more" in err


def test_of_one_name_the_job_that_has_not_ended_is_meant(monkeypatch, capsys):
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: None)
    arguments = type("Arguments", (), {"ref": "digits", "timeout": None, "json": True})
    ended, now = job(id=1, state="cancelled"), job(id=2)
    assert (
        watching.wait(Watched([ended, now], [ended, now | {"state": "finished"}]), arguments) == 0
    )
    assert json.loads(capsys.readouterr().out)["job"] == 2


@pytest.fixture
def stopped():
    """A service that is there and answers nothing: its supervisor, which would replace a broker
    that hangs, is stopped as well."""
    with Lanewayd("--standby", "0") as running:
        broker = running.broker()
        with running.connect() as service:
            predict = small_job(service, "job")
            for pid in (running.pid, broker):
                os.kill(pid, signal.SIGSTOP)
            try:
                yield running
            finally:
                for pid in (broker, running.pid):
                    os.kill(pid, signal.SIGCONT)
            predict.close()


@pytest.mark.parametrize(
    "words",
    [["status"], ["jobs"], ["wait", "job"], ["kill", "job"], ["shutdown"], ["status", "--limits"]],
)
def test_a_service_that_is_stopped_is_said_after_the_callers_own_time(stopped, words):
    done = run(*words, "--timeout", "0.5", address=stopped.address)
    assert done.returncode == 3
    assert stopped.address in done.stderr and "did not answer within 1 s" in done.stderr
    assert done.stdout == ""


def test_a_service_that_is_stopped_in_the_middle_of_a_wait_is_said():
    with Lanewayd("--standby", "0") as running, running.connect() as service:
        predict = small_job(service, "job")
        broker = running.broker()
        wait = ("wait", "job", "--timeout", "3", "--address", running.address)
        with OnTerminal(*wait) as waiting:
            waiting.until("1 iterations")
            for pid in (running.pid, broker):
                os.kill(pid, signal.SIGSTOP)
            try:
                code = waiting.rest()
            finally:
                for pid in (broker, running.pid):
                    os.kill(pid, signal.SIGCONT)
        assert (code, "did not answer within 3 s" in waiting.text) in ((3, True), (1, False))
        predict.close()
