"""Shows that what a step does beside its objects is never lost in silence: prints, log records,
files that it writes, programs and the clock are refused before anything has changed, in words with
the user's line; files and folders that it reads are compared before each call; and that what
installed packages do there, and other threads meanwhile, is theirs."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import threading
import time
from time import perf_counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import Eager, batches, check_equal, check_refused, net, trained

LOG = logging.getLogger("laneway_test.outside")
shout = print


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the kinds read and write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("1.0")
    return tmp_path


def swallowed():
    with contextlib.suppress(Exception):
        print("done")


DONE = {
    "print": (lambda: print("done"), "prints"),
    "print to an open file": (lambda: print("done", file=sys.stderr), "prints"),
    "print by another name": (lambda: shout("done"), "prints"),
    "print whose exceptions are ignored": (swallowed, "prints"),
    "the standard output": (lambda: sys.stdout.write("done"), "writes to|opens|prints"),
    "a logger": (lambda: LOG.warning("%d done", 3), "logs to 'laneway_test.outside'"),
    "the logger above all": (lambda: logging.error("done"), "logs to 'root'"),
    "a file that is opened": (lambda: open("log", "a").close(), "opens the file 'log' to write"),
    "a path that is written": (lambda: pathlib.Path("log").write_text("x"), "opens the file"),
    "a file that is removed": (lambda: os.remove("there"), r"changes files, os.remove\('there'\)"),
    "a folder": (lambda: os.makedirs("a/b"), "changes files, os.mkdir"),
    "a program": (lambda: subprocess.run(["true"]), r"starts a program, \['true'\]"),
    "a command": (lambda: os.system("true"), "starts a program, 'true'"),
    "time.time": (lambda: time.time(), r"asks the clock, time.time\(\)"),
    "a clock by its own name": (lambda: perf_counter(), r"asks the clock, perf_counter\(\)"),
    "datetime": (lambda: datetime.datetime.now(), r"asks the clock, datetime.now\(\)"),
    "a formatted time": (lambda: time.strftime("%H"), r"asks the clock, time.strftime\(\)"),
}


@pytest.mark.parametrize("kind", DONE)
def test_what_would_happen_at_capture_only_is_refused(kind, service, capsys, folder) -> None:
    """Before anything is changed, too: neither the weights nor what is outside."""
    does, words = DONE[kind]
    model = net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def job(lane):
        if lane.is_eager:
            return None
        return trained(
            lane, lambda m, x, y: F.cross_entropy(m(x), y), model, after=lambda _: does()
        )

    message = check_refused(job, service, words, "which would happen at capture only at test_")
    assert "outside of the step" in message
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert sorted(os.listdir(folder)) == ["there"] and capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["print", "a logger", "a clock by its own name"])
def test_the_remedy_does(kind, service, capsys) -> None:
    """The same behind the call."""
    does, _ = DONE[kind]

    def job(lane):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @lane.step(model, optimizer)
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for batch in batches(3):
            losses.append(train(*batch))
            does()
        return losses, model

    check_equal(job, service)


def put(path, value):
    path.write_text(str(value))


def put_there(path, value):
    path.unlink(missing_ok=True)
    if value > 1:
        path.touch()


READ = {
    "the text of a path": (lambda path: float(path.read_text()), put),
    "an open file": (lambda path: parsed(path), put),
    "a file that may not be there": (lambda path: read_if_there(path), put_there),
    "os.path.exists": (lambda path: 1.0 + os.path.exists(path), put_there),
    "Path.exists": (lambda path: 1.0 + path.exists(), put_there),
    "os.listdir": (lambda path: float(len(os.listdir(path.parent))), put_there),
    "a folder's paths": (lambda path: float(len(list(path.parent.iterdir()))), put_there),
    "the size of a file": (
        lambda path: float(os.path.getsize(path)),
        lambda path, value: path.write_text("x" * int(value)),
    ),
}


def parsed(path):
    with open(path) as file:
        return json.load(file)


def read_if_there(path):
    try:
        return 1.0 + len(path.read_bytes())
    except FileNotFoundError:
        return 3.0


@pytest.mark.parametrize("kind", READ)
def test_another_answer_is_used_by_the_next_call(kind, service, folder) -> None:
    read, change = READ[kind]
    values = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0)

    def job(lane):
        path = folder / "value"
        change(path, 1.0)
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(path),
            between=lambda number: change(path, values[number]),
            count=len(values),
        )

    lane = check_equal(job, service)
    assert lane.graphs() == 2 or kind in ("a folder's paths", "Path.exists")


def test_a_large_file_is_refused(service, folder) -> None:
    path = folder / "large"
    path.write_text(" " * (1 << 16) + "1")
    message = check_refused(
        lambda lane: trained(lane, lambda m, x, y: m(x).mean() * float(path.read_text())), service
    )
    assert "of 65,537 bytes: a call compares files of at most 65,536 bytes" in message


def test_a_record_below_the_level_is_none(service) -> None:
    def job(lane):
        def loss_of(model, x, y):
            LOG.debug("a batch of %d", len(x))
            return F.cross_entropy(model(x), y)

        return trained(lane, loss_of)

    LOG.setLevel(logging.INFO)
    assert check_equal(job, service).graphs() == 1


def test_other_threads_meanwhile(service, capsys) -> None:
    """They print, write and ask the clock while a step is captured."""
    inside, done = threading.Event(), threading.Event()
    seen = []

    def other():
        inside.wait()
        print("from another thread")
        seen.append((time.time() > 0, perf_counter() > 0))
        pathlib.Path("of_another").write_text("x")
        done.set()

    class Waiting(nn.Linear):
        def forward(self, x):
            if not done.is_set():
                inside.set()
                done.wait()
            return super().forward(x)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        predict = laneway.inference(Waiting(8, 4), service)
        predict(batches(1)[0][0])
    finally:
        inside.set()
        thread.join()
    assert seen == [(True, True)] and os.path.exists("of_another")
    assert "from another thread" in capsys.readouterr().out


def test_the_functions_of_python_are_as_they_were(service) -> None:
    before = print, open, io.open, os.stat, time.time, logging.Logger.handle, sys.getprofile()
    trained(Eager(), lambda m, x, y: m(x).mean())
    check_refused(
        lambda lane: (
            None if lane.is_eager else trained(lane, lambda m, x, y: m(x) * perf_counter())
        ),
        service,
    )
    now = print, open, io.open, os.stat, time.time, logging.Logger.handle, sys.getprofile()
    assert all(a is b for a, b in zip(before, now, strict=True))


def test_what_others_put_in_the_place_of_a_function_stays(service, monkeypatch):
    """Of a test that freezes the clock, say, or a program that prints in colours."""
    asked = []
    monkeypatch.setattr(time, "time", lambda: asked.append(1) or 5.0)
    model = torch.nn.Linear(2, 1)
    theirs = time.time
    with laneway.train_step(
        model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.1),
        service=service,
    ) as step:  # fmt: skip
        step(torch.ones(3, 2), torch.ones(3, 1))
        assert time.time is theirs
        assert time.time() == 5.0
