"""The demo as a user runs it, in its embedded form, with fewer epochs than by default. The form
with lanewayd is in test_demo_daemon.py."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240


def start(*arguments):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "laneway.demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
    )


def run(*arguments):
    process = start("--embedded", *arguments)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def test_both_jobs_learn_share_the_pool_and_end_with_the_bits_of_pytorch():
    """The whole promise: accuracy, map, times, bit-equality, and that all of it is said."""
    code, out, err = run("--epochs", "25")
    assert code == 0, err + out
    found = dict(re.findall(r"^  (mlp|cnn) +([\d.]+)%", out, re.MULTILINE))
    assert found.keys() == {"mlp", "cnn"} and all(float(a) >= 95 for a in found.values())
    assert len(re.findall(r"^  (?:mlp|cnn) .* bit-equal$", out, re.MULTILINE)) == 2
    assert len(re.findall(r"^  (?:mlp|cnn|answers) +mean .* p99 ", out, re.MULTILINE)) == 3
    for holder in ("mlp: parameters", "cnn: parameters", "an iteration of", "free", "512.0 MiB"):
        assert holder in out
    answered = int(re.findall(r"(\d+) requests answered", out)[-1])
    assert answered > 0


def test_quiet_says_the_result_only():
    code, out, err = run("--quiet", "--epochs", "25", "--pool", "64MiB", "--policy", "srtf")
    assert code == 0, err + out
    assert out.strip().startswith("Held-out accuracy") and "captured" not in out


def test_stopping_early_still_compares_what_was_done():
    """A second is too short to learn, or not: the bits must be equal either way."""
    code, out, err = run("--seconds", "1", "--epochs", "100000")
    assert "bit-equal" in out and "DIFFER" not in out
    assert code == (0 if "below" not in err else 1)


def test_interrupted_it_ends_at_once_and_cleanly():
    """Ctrl-C while the jobs run: exit code 130, one line, no traceback, no process left."""
    process = start("--embedded", "--epochs", "1000000")
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "requests answered" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    watchdog.cancel()
    assert process.returncode == 130, "".join(lines) + err
    assert "interrupted" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--pool", "64KiB"], 4, "pool"),
        (["--pool", "many"], 2, "many"),
        (["--policy", "nonsense"], 2, "nonsense"),
        (["--epochs", "0"], 2, "--epochs"),
        (["--seconds", "0"], 2, "--seconds"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, code, told):
    found, _, err = run(*arguments)
    assert found == code, err
    assert told in err and "Traceback" not in err


def test_help_needs_neither_torch_nor_a_service():
    code, out, _ = run("--help")
    assert code == 0 and "--pool" in out
