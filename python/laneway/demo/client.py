"""A client of the demo, a process of its own: `python -m laneway.demo.client JOB --address …`.

The client reports its progress on standard output, one JSON object on a line. It reads commands
from standard input: "go" (all clients are ready: train), "stop" (stop training), "close" (end the
job). When standard input closes, the parent has ended, and the client ends too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import torch

import laneway
from laneway.demo import compare
from laneway.demo.running import REQUEST_ROWS, Requests, Training, times_text
from laneway.demo.workloads import (
    Digits,
    Job,
    accuracy,
    evaluate,
    load_digits,
    make_jobs,
    make_table_jobs,
    mlp,
)
from laneway.jobs.service import parse_bytes

ANSWERS = "answers"  # the client that has no job of its own
SERVED = "mlp"  # the job whose weights it uses
LAST_ROWS = 32  # the number of its last answers, which are compared
EVERY_S = 0.1
GRACE_S = 2.0  # time for an orderly end after the parent has ended


class Parent:
    """The parent process: `say` sends it a message; `go`, `stop` and `close` are the commands that
    it has sent, each including the ones before it. `gone` is called, in a thread, some time after
    the parent has ended."""

    def __init__(
        self, commands: Iterable[str], out: TextIO, gone: Callable[[], object] = lambda: None
    ) -> None:
        self.go, self.stop, self.close = (threading.Event() for _ in range(3))
        self._out, self._lock = out, threading.Lock()
        self._gone = gone
        # A daemon thread: nothing else ends a read.
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()

    def say(self, event: str, **facts: Any) -> None:
        with self._lock:
            print(json.dumps({"event": event, **facts}), file=self._out, flush=True)

    def _listen(self, commands: Iterable[str]) -> None:
        for command in commands:
            self._asked(command.strip())
        self._asked("close")
        time.sleep(GRACE_S)
        self._gone()

    def _asked(self, command: str) -> None:
        if command == "close":
            self.close.set()
        if command in ("stop", "close"):
            self.stop.set()
        self.go.set()


class Connection:
    """The client's use of the service."""

    def __init__(self, address: str) -> None:
        self._service = laneway.connect(address)

    def train_step(self, model: torch.nn.Module, optimizer: Any, job: Job) -> Any:
        """A step; other sessions may use its job if it is the served one."""
        return laneway.train_step(
            model,
            job.loss_fn,
            optimizer,
            service=self._service,
            name=job.name,
            shared=job.name == SERVED,
            total_iterations=job.iterations,
        )

    def inference(self, model: torch.nn.Module) -> Any:
        """The model's forward pass with the weights of the served job."""
        return laneway.attach(SERVED, service=self._service).inference(model)

    def close(self) -> None:
        self._service.close()


def train(job: Job, connection: Connection, parent: Parent, folder: Path) -> None:
    """Trains, once all clients are ready, until it is done or must stop, and writes the state into
    the folder. The served job stays until the command "close"."""
    model, optimizer = job.begin()
    started = time.perf_counter()
    step = connection.train_step(model, optimizer, job)
    with step:
        training = Training(job, step, parent.stop)
        training.warm_up()
        parent.say("ready", seconds=time.perf_counter() - started, done=training.done)
        parent.go.wait()
        training.start()
        while training.alive():
            training.wait(EVERY_S)
            parent.say(
                "progress",
                done=training.done,
                rate=training.recent_rate(),
                loss=training.loss,
            )
        if training.error is not None:
            raise training.error
        torch.save(compare.digested(compare.training_state(step.state_dict())), folder / job.name)
        step.sync_to(model, optimizer)
        right = accuracy(evaluate(model, job.data.held_out_x), job.data.held_out_y)
        times = times_text(training.times_s) if training.times_s else ""
        parent.say("trained", done=training.done, accuracy=right, times=times)
        if job.name == SERVED:
            parent.close.wait()


def answer(data: Digits, connection: Connection, parent: Parent, folder: Path) -> None:
    """Sends requests to the weights of the served job until it must stop; writes its last answers
    into the folder."""
    started = time.perf_counter()
    predict = connection.inference(mlp()[0])
    predict(data.held_out_x[:REQUEST_ROWS])
    parent.say("ready", seconds=time.perf_counter() - started)
    parent.go.wait()
    requests = Requests(
        predict, data.held_out_x, data.held_out_y, lambda: parent.stop.is_set(), parent.stop
    )
    requests.start()
    while requests.alive():
        requests.wait(EVERY_S)
        parent.say("progress", done=len(requests.times_s), accuracy=requests.accuracy)
    if requests.error is not None:
        raise requests.error
    torch.save(predict(data.held_out_x[:LAST_ROWS]), folder / ANSWERS)
    times = times_text(requests.times_s) if requests.times_s else ""
    parent.say("trained", done=len(requests.times_s), accuracy=requests.accuracy, times=times)


def run(options: argparse.Namespace, connection: Connection, parent: Parent) -> None:
    """The client's whole work."""
    data = load_digits(options.seed)
    jobs = make_jobs(data, options.seed, options.epochs)
    jobs += make_table_jobs(data, options.seed, parse_bytes(options.pool))
    if options.job == ANSWERS:
        answer(data, connection, parent, options.folder)
        return
    train(next(j for j in jobs if j.name == options.job), connection, parent, options.folder)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="laneway.demo.client")
    parser.add_argument("job")
    parser.add_argument("--address", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epochs", type=int)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent acts on Ctrl-C
    torch.set_num_threads(1)
    # A wait for admission reads no command; the service notices when this process has ended.
    parent = Parent(sys.stdin, sys.stdout, lambda: os._exit(1))
    try:
        connection = Connection(options.address)
        try:
            run(options, connection, parent)
        finally:
            connection.close()
    except laneway.Error as error:
        refused = isinstance(error, (laneway.Refused, laneway.OutOfMemory))
        parent.say("failed", refused=refused, text=str(error))
        return 4 if refused else 1
    parent.say("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
