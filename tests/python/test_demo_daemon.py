"""The demo as a user runs it: a lanewayd and a client process for each job, with fewer epochs than
by default. Needs the programs of the service."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from laneway.demo import processes

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 400

pytestmark = pytest.mark.skipif(
    processes.missing_programs() is not None,
    reason=f"not built: {processes.missing_programs()}",
)


def start(folder, *arguments):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "laneway.demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
    )


@pytest.fixture
def folder():
    """A short one: a socket's address has about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="lw-") as name:
        yield Path(name)


def check_nothing_is_left(folder, out):
    """No folder of the demo's, and none of the processes that it spoke of."""
    assert not list(folder.glob("laneway-demo-*"))
    pids = re.findall(r"process (\d+)", out)
    assert pids
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists(), f"process {pid} is left"


def test_processes_share_the_pool_one_waits_and_all_end_with_the_bits_of_pytorch(folder):
    process = start(folder, "--epochs", "25", "--pool", "64MiB")
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err + out
    found = dict(re.findall(r"^  (mlp|cnn) +([\d.]+)%", out, re.MULTILINE))
    assert found.keys() == {"mlp", "cnn"} and all(float(a) >= 95 for a in found.values())
    jobs = {"mlp", "cnn", "table", "late"}
    assert set(re.findall(r"^  (\w+) .* bit-equal$", out, re.MULTILINE)) == jobs
    assert set(re.findall(r"^  (\w+) +mean .* p99 ", out, re.MULTILINE)) == {*jobs, "answers"}
    assert re.search(
        r"^late waits at position 1: needs .*; starts in about \d+ s", out, re.MULTILINE
    )
    assert "table starting" in out and "nan" not in out
    assert "table: parameters" in out
    assert int(re.findall(r"(\d+) requests answered by another", out)[-1]) > 0
    check_nothing_is_left(folder, out)


def test_interrupted_it_ends_with_everything_that_it_started(folder):
    process = start(folder, "--epochs", "1000000", "--pool", "64MiB")
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(r"[1-9]\d* requests answered", line):
            break
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate()
    watchdog.cancel()
    out = "".join(lines) + rest
    assert process.returncode == 130, out + err
    assert "interrupted" in err and "Traceback" not in err
    check_nothing_is_left(folder, out)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--pool", "many"], 2, "many"),
        (["--pool", "1KiB"], 2, "pool"),
        (["--policy", "nonsense"], 2, "nonsense"),
    ],
)
def test_what_cannot_be_done_is_said(folder, arguments, code, told):
    process = start(folder, *arguments)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, err
    assert told in err and "Traceback" not in err
    assert not list(folder.glob("laneway-demo-*"))
