"""A client that keeps the memory of its job's first bytes, and writes over it before and while the
image is placed: its own job begins with what is there then, and nobody else notices."""

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from support.crowd import lines
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.engine import batches_of, eager_state, job_state, make_step

COUNT = 6 << 20  # of weights: 24 MiB
STRIDE = 4096
OLD, NEW = 1.5, 3.25
SEED = 5
STEPS = 12


class Weights(nn.Module):
    """Gives back one weight of each of its memory's pieces."""

    def __init__(self, value, count=COUNT):
        super().__init__()
        self.values = nn.Parameter(torch.full((count,), value))

    def forward(self, inputs):
        return self.values[::STRIDE] + inputs


class Neighbour:
    """A training beside it; its end is eager's, bit for bit."""

    def __init__(self, service):
        self.batches = batches_of("mlp", SEED, STEPS)
        self.step = make_step(service, "mlp", SEED)
        self.losses = []

    def train(self):
        self.losses.append(self.step(*self.batches[len(self.losses)]).item())

    def check(self):
        while len(self.losses) < STEPS:
            self.train()
        state = job_state(self.step, self.losses)
        assert_same(eager_state("mlp", SEED, "default", self.batches), state, "the neighbour")
        self.step.close()


@contextmanager
def initial_memory(daemon):
    """As a client has it that kept the descriptor that it sent."""

    def look():
        found = []
        for link in Path(f"/proc/{daemon.broker()}/fd").iterdir():
            try:
                found += [link] if "laneway-initial" in os.readlink(link) else []
            except FileNotFoundError:
                continue
        return found

    (link,) = wait_until(look, "initial memory")
    descriptor = os.open(link, os.O_RDWR)
    try:
        with mmap.mmap(descriptor, os.fstat(descriptor).st_size) as memory:
            yield memory
    finally:
        os.close(descriptor)


def write_over(memory, value):
    memory[: 4 * COUNT] = torch.full((COUNT,), value).numpy().tobytes()


def ask(predict):
    with torch.no_grad():
        return predict(torch.zeros(COUNT // STRIDE))


@contextmanager
def scene(*words):
    """A service, a neighbour that has begun, a thread for the job that waits, and its client."""
    with ExitStack() as stack:
        daemon = stack.enter_context(Lanewayd("--staging", "0", *words, pool="64MiB"))
        service = stack.enter_context(daemon.connect())
        client = stack.enter_context(daemon.connect())
        thread = stack.enter_context(ThreadPoolExecutor(1))
        neighbour = Neighbour(service)
        neighbour.train()
        yield daemon, service, client, neighbour, thread
        neighbour.check()


def ask_for(thread, client):
    """The answer of a job whose weights are OLD until somebody writes over them."""
    predict = laneway.inference(Weights(OLD), service=client, name="late", sync="manual")
    return thread.submit(ask, predict)


@pytest.mark.parametrize("killed", ["nobody", "worker", "broker"])
def test_what_is_written_before_the_image_is_placed_is_what_the_job_has(killed):
    with scene() as (daemon, service, client, neighbour, thread):
        filler = laneway.inference(Weights(0.0, 10 << 20), service=service, name="filler")
        with torch.no_grad():
            filler(torch.zeros((10 << 20) // STRIDE))
        answer = ask_for(thread, client)
        wait_until(lambda: lines(service).get("late", {}).get("state") == "waiting", "it waits")
        neighbour.train()
        with initial_memory(daemon) as memory:
            write_over(memory, NEW)
        if killed != "nobody":
            daemon.kill(daemon.active_worker() if killed == "worker" else daemon.broker())
        neighbour.train()
        filler.close()
        assert (answer.result() == NEW).all()


def test_what_is_written_while_the_image_is_placed_is_there_or_not():
    # The image comes within three seconds.
    with scene("--copy-bandwidth", "8MiB") as (daemon, service, client, neighbour, thread):
        answer = ask_for(thread, client)
        wait_until(lambda: lines(service).get("late", {}).get("state") == "staged", "it comes")
        with initial_memory(daemon) as memory:
            while not answer.done() and lines(service)["late"]["state"] == "staged":
                for value in (NEW, OLD):
                    write_over(memory, value)
                if len(neighbour.losses) < STEPS:
                    neighbour.train()
            write_over(memory, -1.0)
        found = answer.result()
        assert ((found == NEW) | (found == OLD)).all()
        assert service.status()["pool"]["persistent_bytes"] < 26 << 20


def test_its_client_goes_while_it_writes():
    with scene("--copy-bandwidth", "8MiB") as (daemon, service, client, neighbour, thread):
        answer = ask_for(thread, client)
        wait_until(lambda: lines(service).get("late", {}).get("state") == "staged", "it comes")
        with initial_memory(daemon) as memory:
            write_over(memory, NEW)
            client.close()
            for _ in range(4):
                write_over(memory, OLD)
                neighbour.train()
        assert answer.exception() is not None
        wait_until(
            lambda: service.status()["pool"]["persistent_bytes"] < 2 << 20, "its room is free"
        )
