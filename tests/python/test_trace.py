"""`lanewayd --trace FILE` and what reads it: two jobs run in a real service, and the trace names
them, counts what they ran, survives a broker, and becomes JSON with iterations inside of turns."""

import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway.native.programs import program
from support.daemon import Lanewayd, wait_until

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
ITERATION = re.compile(r"^\+[0-9.]+ iteration of job \d+ '(\w+)' in lane \d+, graph \d+: (\w+), ")


def read_trace(*words):
    """A finished `laneway trace WORDS`."""
    paths = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "laneway.cli", "trace", *map(str, words)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def lines_of(trace):
    done = read_trace(trace)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def counted(lines):
    """Iterations by job and outcome."""
    found = (ITERATION.match(line) for line in lines)
    return collections.Counter(match.groups() for match in found if match)


def make_step(service, name):
    model = nn.Linear(8, 3)
    return laneway.train_step(
        model,
        nn.functional.cross_entropy,
        torch.optim.SGD(model.parameters(), 0.1),
        service=service,
        name=name,
    )


def run(step, count):
    for _ in range(count):
        step(torch.randn(4, 8), torch.randint(0, 3, (4,)))


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Of a service that ran two jobs of 70 and 30 iterations, and ended as it was told to."""
    path = tmp_path_factory.mktemp("trace") / "service.trace"
    with Lanewayd("--trace", str(path)) as daemon, daemon.connect() as service:
        one, two = make_step(service, "digits"), make_step(service, "letters")
        for _ in range(10):
            run(one, 7)
            run(two, 3)
        one.close()
        two.close()
    return path


def test_the_trace_names_the_jobs_and_counts_what_they_ran(trace):
    lines = lines_of(trace)
    counts = counted(lines)
    assert counts["digits", "completed"] == 70
    assert counts["letters", "completed"] == 30
    assert {outcome for _, outcome in counts} <= {"completed", "did_not_fit"}
    turns = [line for line in lines if " heard TurnEnded " in line]
    assert sum(int(re.search(r", (\d+) iterations in", line)[1]) for line in turns) == 100
    for name in ("digits", "letters"):
        assert any(
            f"heard JobOffered job {job} '{name}' of" in text for text in lines for job in "12"
        )
        assert any(f"'{name}' to lane" in line and "decided AdmitJob" in line for line in lines)
    assert "started broker 1, pid" in lines[0]
    assert lines[-1].endswith(" ended")
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times) and times[0] >= 0


def test_the_chrome_json_has_iterations_inside_of_turns(trace, tmp_path):
    out = tmp_path / "trace.json"
    done = read_trace(trace, "--chrome", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    events = json.loads(out.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    turns = [event for event in slices if event["cat"] == "turn"]
    iterations = [event for event in slices if event["cat"] == "iteration"]
    assert len([one for one in iterations if one["args"]["outcome"] == "completed"]) == 100
    for one in iterations:
        around = [
            turn
            for turn in turns
            if turn["tid"] == one["tid"]
            and turn["ts"] <= one["ts"]
            and one["ts"] + one["dur"] <= turn["ts"] + turn["dur"] + 0.001  # of rounding
        ]
        assert [turn["name"] for turn in around] == [one["args"]["name"]]
    names = [event["name"] for event in events if event["ph"] == "i"]
    assert "admitted: digits" in names and "worker reported" in names
    counters = [event["args"] for event in events if event["ph"] == "C"]
    assert all(sum(row.values()) == 256 << 20 for row in counters)
    assert max(row["persistent"] for row in counters) > 0
    assert counters[-1]["persistent"] == 0


def test_a_trace_that_was_cut_off_is_shown_as_far_as_it_goes(trace, tmp_path):
    torn = tmp_path / "torn"
    torn.write_bytes(trace.read_bytes()[:-3])
    done = read_trace(torn)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == len(lines_of(trace)) - 1
    assert "offset" in done.stderr and str(torn) in done.stderr


def test_what_is_no_trace_is_an_error(tmp_path):
    letter = tmp_path / "letter"
    letter.write_text("dear reader, this is a letter and no trace at all")
    for path in (letter, tmp_path / "nothing"):
        done = read_trace(path)
        assert (done.returncode, done.stdout) == (1, "")
        assert str(path) in done.stderr
    assert read_trace().returncode == 2
    asked = subprocess.run(
        [program("laneway-trace"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--chrome" in asked.stdout


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    letter = tmp_path / "letter"
    letter.write_text("dear reader, this is a letter and no trace at all")
    for path in (letter, tmp_path, tmp_path / "none" / "trace"):
        done = subprocess.run(
            [
                str(program("lanewayd")),
                *("--address", f"ipc://{tmp_path}/s/l.sock", "--pool", "16MiB"),
                *("--trace", str(path)),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert f"--trace: '{path}'" in done.stderr
    assert letter.read_text().startswith("dear reader")


def test_a_new_broker_goes_on_in_the_same_file(tmp_path):
    path = tmp_path / "trace"
    with Lanewayd("--trace", str(path)) as daemon, daemon.connect() as service:
        step = make_step(service, "digits")
        run(step, 5)
        wait_until(lambda: "decided AdmitJob" in read_trace(path).stdout, "the first entries")
        daemon.kill(daemon.broker())
        run(step, 6)
        step.close()
    lines = lines_of(path)
    assert [line for line in lines if " started broker 2, pid" in line]
    assert [line for line in lines if "heard WorkerReported 1 jobs" in line and "'digits'" in line]
    # What the broker was told in its last tenth of a second went with it.
    assert 6 <= counted(lines)["digits", "completed"] <= 11
