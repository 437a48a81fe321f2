"""`laneway doctor`: each thing that would stop a service is found where it is, with a remedy, and
makes the exit code 1; what is fine is not called wrong."""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from laneway.cli import doctor
from support.cli import run
from support.daemon import Lanewayd

NOBODY = 4_000_001  # has no entry in passwd


def found(check, address="ipc:///nowhere/at/all.sock"):
    return list(check(argparse.Namespace(address=address, json=True)))


def test_few_files_few_threads_and_small_files_are_found_from_outside(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))

    words = ["doctor", "--json", "--address", f"ipc://{tmp_path}/none.sock"]
    done = subprocess.run(
        [sys.executable, "-m", "laneway.cli", *words],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    findings = {one["check"]: one for one in json.loads(done.stdout)}
    for check, told, remedy in (
        ("open files", "at most 256", "LimitNOFILE="),
        ("size of files", "at most 1.00 MiB", "ulimit -f unlimited"),
    ):
        assert findings[check]["fine"] is False
        assert told in findings[check]["told"] and remedy in findings[check]["remedy"]
    assert findings["service"]["told"] == "none runs at the address"
    assert all(one["fine"] != bool(one["remedy"]) for one in findings.values())


def test_few_threads_are_found(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (500, 500))
    monkeypatch.setattr(doctor, "_of_groups", lambda name: [90, 5_000])
    of_user, of_group = found(doctor._threads)
    assert not of_user.fine and "at most 500" in of_user.told
    assert not of_group.fine and "at most 90" in of_group.told and "TasksMax=" in of_group.remedy


def test_a_user_without_a_name_is_found_unless_it_says_one(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    (finding,) = found(doctor._user)
    assert not finding.fine and "set USER" in finding.remedy and str(NOBODY) in finding.told
    monkeypatch.setenv("USER", "ann")
    (finding,) = found(doctor._user)
    assert finding.fine


def test_little_memory_is_found(monkeypatch):
    monkeypatch.setattr(doctor, "_machine_memory", lambda: (8 << 30, 100 << 20))
    (finding,) = found(doctor._memory)
    assert not finding.fine and "100 of 8,192 MiB" in finding.told


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd("--staging", "64MiB", "--recovery-memory", "64MiB") as running:
        yield running


def test_a_service_is_asked(daemon, monkeypatch):
    of_service = {one.check: one for one in found(doctor._service, daemon.address)}
    assert all(one.fine for one in of_service.values())
    assert f"pid {daemon.pid}" in of_service["service"].told
    assert "384 MiB" in of_service["promised"].told
    monkeypatch.setattr(doctor, "_machine_memory", lambda: (400 << 20, 100 << 20))
    of_service = {one.check: one for one in found(doctor._service, daemon.address)}
    assert not of_service["promised"].fine
    shown = run("doctor", address=daemon.address)
    assert "ok     service" in shown.stdout


def test_a_folder_that_others_write_and_sockets_of_nobody_are_found(daemon, tmp_path):
    daemon.folder.chmod(0o770)
    try:
        address, *_ = found(doctor._service, daemon.address)
        assert not address.fine and "chmod go-w" in address.remedy
    finally:
        daemon.folder.chmod(0o750)
    socket = tmp_path / "left.sock"
    socket.touch()
    _, service = found(doctor._service, f"ipc://{socket}")
    assert not service.fine and "start lanewayd anew" in service.remedy


def test_a_service_that_is_stopped_is_told_from_one_that_is_gone(daemon):
    stopped = [daemon.pid, *daemon.children()]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        asked = argparse.Namespace(address=daemon.address, json=True, command="doctor", timeout=0.5)
        _, service = doctor._service(asked)
        assert not service.fine and "kill -CONT" in service.remedy
    finally:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
    _, service, _ = found(doctor._service, daemon.address)
    assert service.fine
