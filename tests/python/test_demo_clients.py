"""The demo's form with a process for each job: what its clients do and in which order they are led,
here on threads of one process over an embedded service; and the processes that carry them."""

import argparse
import io
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import laneway
from laneway.demo import __main__ as demo
from laneway.demo import client, clients_show, processes, show, workloads
from laneway.demo.display import Display

TIMEOUT_S = 240
POOL = "32MiB"


def options(**changed):
    given = dict(pool=POOL, policy="fifo", epochs=6, seconds=None, seed=0, quiet=False)
    return argparse.Namespace(**given | changed)


class Lines:
    """A pipe of lines within the process."""

    def __init__(self):
        self._lines = queue.SimpleQueue()

    def write(self, text):
        if text != "\n":  # print writes that apart
            self._lines.put(text)

    def flush(self):
        pass

    def close(self):
        self._lines.put(None)

    def __iter__(self):
        return iter(self._lines.get, None)


class Shared:
    """A connection of clients on threads: one service, whose served job all can reach."""

    def __init__(self, service):
        self.service, self.served = service, None

    def train_step(self, model, optimizer, job):
        # As in a process of its own.
        step = laneway.train_step(
            model, job.loss_fn, optimizer, self.service, name=job.name, random="own"
        )
        if job.name == client.SERVED:
            self.served = step
        return step

    def inference(self, model):
        return laneway.inference(self.served)


class ThreadClient(processes.Client):
    """A client whose process is a thread."""

    pid = os.getpid()

    def __init__(self, name, connection, folder):
        self.name, self.facts, self.events = name, {}, []
        self._messages = queue.SimpleQueue()
        self.spoke = threading.Event()
        self._commands, self._out = Lines(), Lines()
        parent = client.Parent(self._commands, self._out)
        arguments = argparse.Namespace(job=name, folder=folder, pool=POOL, seed=0, epochs=6)

        def run():
            try:
                client.run(arguments, connection, parent)
                parent.say("ended")
            except laneway.Error as error:
                parent.say("failed", refused=False, text=str(error))
            finally:
                self._out.close()

        self._threads = [threading.Thread(target=run), threading.Thread(target=self._forward)]
        for thread in self._threads:
            thread.start()

    def _forward(self):
        for line in self._out:
            self._messages.put(json.loads(line))
            self.spoke.set()

    def tell(self, command):
        self._commands.write(command)

    def leave(self):
        self._commands.close()

    def end(self):
        for thread in self._threads:
            thread.join()


@pytest.fixture
def brief_wait(monkeypatch):
    monkeypatch.setattr(workloads, "TABLE_ITERATIONS", 300)
    monkeypatch.setattr(client, "GRACE_S", 0.0)


def test_the_whole_play_ends_with_the_bits_of_pytorch(brief_wait, tmp_path):
    """Two train, one answers with the weights of the first, one holds most of the pool, one waits
    for that; then all is trained again."""
    out = io.StringIO()
    made = clients_show.ClientsShow(options())
    made.display = Display(quiet=False, out=out)
    made.prepare()
    with laneway.embedded(POOL, staging=0) as service:
        shared = Shared(service)

        def start(name):
            found = ThreadClient(name, shared, tmp_path)
            # Threads share torch's generator, from which weights come; processes do not.
            if name != clients_show.LATE:
                assert found.spoke.wait(TIMEOUT_S)
            return found

        made.drive(service, start)
    assert made.crowded is not None, "the late job was to wait"
    waited = next(j for j in made.crowded["jobs"] if j["name"] == "late")
    assert waited["position"] == 1 and "waits at position 1" in clients_show.wait_text(waited)
    names = {j["name"]: j["state"] for j in made.crowded["jobs"]}
    assert names["table"] in ("resident", "running") and names["late"] == "waiting"
    made.results()
    made.compare_all(tmp_path)
    failures = [f for f in made.failures if "accuracy" not in f]  # six epochs teach little
    assert failures == [], failures
    said = out.getvalue()
    assert said.count("bit-equal") == 4 and "late: " not in said
    assert "table: parameters" in said and "requests answered by another process" in said
    assert made.clients["late"].facts["done"] == workloads.LATE_ITERATIONS
    assert made.clients[client.ANSWERS].facts["done"] > 0


class Recorder:
    """A client of which only is kept what it is told."""

    pid = 1

    def __init__(self, name, *events, **facts):
        self.name, self.events, self.facts, self.told = name, list(events), facts, []

    def tell(self, command):
        self.told.append(command)


def test_training_begins_when_the_answers_have_begun_and_late_waits():
    made = clients_show.ClientsShow(options(seconds=5))
    names = ("mlp", "cnn", "table")
    made.clients = {name: Recorder(name, "ready") for name in names}

    def lead_on():
        made._lead_on(Recorder)
        return [name for name, found in made.clients.items() if "go" in found.told]

    assert lead_on() == [] and {"answers", "late"} <= made.clients.keys()
    made.crowded = {}
    assert lead_on() == [] and made.deadline == float("inf"), "nobody has answered"
    made.clients["answers"].events.append("ready")
    assert lead_on() == [*names, "answers", "late"]
    assert made.deadline < float("inf"), "seconds are counted from here"


def test_a_client_trains_only_when_told_and_ends_when_left_before():
    commands, out = Lines(), Lines()
    parent = client.Parent(commands, out, lambda: None)
    assert not parent.go.is_set()
    commands.write("go")
    assert parent.go.wait(TIMEOUT_S) and not parent.stop.is_set()
    commands.write("stop")
    assert parent.stop.wait(TIMEOUT_S) and not parent.close.is_set()
    commands.close()
    assert parent.close.wait(TIMEOUT_S)
    other = Lines()
    parent = client.Parent(other, out, lambda: None)
    other.close()
    assert parent.go.wait(TIMEOUT_S) and parent.stop.is_set(), "it does not train then"


def test_a_run_without_an_answer_has_failed():
    made = clients_show.ClientsShow(options())
    made.display = Display(quiet=False, out=io.StringIO())
    made.say_answered(0, "0 requests answered")
    assert made.failures == ["no request was answered while mlp trained"]


def test_what_has_not_begun_shows_no_numbers():
    made = clients_show.ClientsShow(options())
    made.clients = {
        "mlp": Recorder("mlp", "ready", "progress", done=7, rate=3.0, loss=0.5),
        "cnn": Recorder("cnn", "ready", done=3),
        "table": Recorder("table"),
    }
    lines, brief = made._progress({"jobs": []})
    assert brief == "mlp 7 (3/s, loss 0.5000); cnn ready; table starting"
    assert "nan" not in "".join(lines) and "starting" in lines[3]


def test_a_waiting_job_is_told_with_position_reason_and_estimate():
    numbers = {
        "persistent_bytes": 3 << 20,
        "region_bytes": 1 << 20,
        "claimed_bytes": 5 << 20,
        "capacity_bytes": 8 << 20,
    }
    reason = {"code": "pool_full", "text": "many words", "numbers": numbers}
    job = {"name": "late", "position": 2, "reason": reason, "wait_estimate_s": 4.2}
    assert clients_show.wait_text(job) == (
        "late waits at position 2: needs 4.0 MiB, and 5.0 MiB of 8.0 MiB are claimed; "
        "starts in about 4 s"
    )
    other = job | {"reason": reason | {"code": "behind_others"}, "wait_estimate_s": None}
    assert clients_show.wait_text(other) == "late waits at position 2: many words"


def test_the_table_is_most_of_the_pool_and_learns():
    data = workloads.load_digits(0)
    table, late = workloads.make_table_jobs(data, 0, 64 << 20)
    model, optimizer = table.begin()
    size = sum(p.nbytes for p in model.parameters())
    assert 0.5 < size / (64 << 20) < 0.6
    assert not torch.equal(model.table.weight, late.begin()[0].table.weight)
    model, optimizer = table.begin()
    before = model.table.weight.clone()
    workloads.train(workloads.EagerStep(model, table.loss_fn, optimizer), table, 200)
    logits = workloads.evaluate(model, data.held_out_x)
    assert workloads.accuracy(logits, data.held_out_y) > 0.5
    assert torch.equal(model.table.weight, before)


def client_arguments(folder):
    fixed = ["--pool", POOL, "--seed", "0", "--epochs", "1"]
    return ["--address", f"ipc://{folder}/nobody.sock", "--folder", str(folder), *fixed]


def test_a_client_process_that_fails_says_why_and_is_gone(tmp_path):
    found = processes.Client("mlp", client_arguments(tmp_path))
    try:
        with pytest.raises(show.Failed, match=r"mlp: .*nobody\.sock") as failed:
            while True:
                found.hear()
        assert failed.value.code == 1
    finally:
        found.end()
    with pytest.raises(ProcessLookupError):
        os.kill(found.pid, 0)


def test_a_client_process_whose_parent_leaves_ends(tmp_path):
    """Also before it has done anything: standard input is all that it needs to hear."""
    found = processes.Client("mlp", client_arguments(tmp_path))
    found.leave()
    found.end()
    with pytest.raises(ProcessLookupError):
        os.kill(found.pid, 0)


def test_a_client_process_that_is_killed_is_noticed(tmp_path):
    found = processes.Client("mlp", client_arguments(tmp_path))
    os.kill(found.pid, 9)
    try:
        with pytest.raises(show.Failed, match="client mlp ended with -9"):
            while True:
                found.hear()
    finally:
        found.end()


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def program_in(folder, monkeypatch, script):
    """A lanewayd of the test's own, beside the real worker."""
    (folder / "bin").mkdir()
    (folder / "bin/laneway-worker").symlink_to(processes.program("laneway-worker"))
    for name in processes.PROGRAMS:
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("LANEWAY_BUILD", str(folder))


def test_a_lanewayd_that_refuses_is_told_with_its_words(tmp_path, monkeypatch):
    program_in(tmp_path, monkeypatch, "echo 'lanewayd: --pool 1: too little' >&2; exit 2")
    daemon = processes.Lanewayd(tmp_path, "1", "fifo")
    with pytest.raises(show.Failed, match="ended with 2: --pool 1: too little") as failed:
        daemon.__enter__()
    assert failed.value.code == 2


def test_a_lanewayd_is_asked_to_end_and_dies_with_its_parent(tmp_path, monkeypatch):
    program_in(tmp_path, monkeypatch, "trap 'exit 0' TERM; echo lanewayd ready; read x <> fifo")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    with processes.Lanewayd(tmp_path, POOL, "fifo") as daemon:
        os.kill(daemon.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(daemon.pid, 0)
    script = (
        "import os, pathlib, sys; from laneway.demo.processes import Lanewayd;"
        f"d = Lanewayd(pathlib.Path({str(tmp_path)!r}), '1MiB', 'fifo').__enter__();"
        "print(d.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    path = str(Path(__file__).resolve().parents[2] / "python")
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == -9
    deadline = time.monotonic() + TIMEOUT_S
    while running(int(done.stdout)):
        assert time.monotonic() < deadline, "lanewayd outlived the demo"


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    program_in(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "bin/laneway-worker").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LANEWAY_CLIENT_LIBRARY", str(tmp_path / "none.so"))
    assert processes.missing_programs() == "laneway-worker, liblaneway_client.so"


def test_without_the_programs_it_says_so_and_runs_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LANEWAY_BUILD", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.main([]) == 1
    out, err = capsys.readouterr()
    assert "lanewayd" in err and "./dev build" in err and "--embedded" in err and not out
