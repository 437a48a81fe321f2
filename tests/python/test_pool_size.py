"""The pool of a running service gets another size, smaller and larger, while jobs run, move, leave
and come back, and while worker and broker die: nobody loses a bit, and what some job could not live
with is refused."""

import errno
import json
import os
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import InvalidInput, Refused
from support.cli import run
from support.crowd import ROOM, Crowd, places
from support.daemon import Lanewayd, wait_until

MIB = 1 << 20
SMALL = "44MiB"  # for an image of 15 MiB or two
WORDS = ("--staging", "256MiB")


def pool_of(service):
    return service.status()["pool"]


def pool_file(daemon, name="laneway-pool"):
    for link in Path(f"/proc/{daemon.active_worker()}/fd").iterdir():
        if link.readlink().name.startswith(f"memfd:{name}"):
            return link
    raise AssertionError(f"the worker has no {name}")


def present(daemon, name="laneway-pool"):
    """Bytes of the pool for which the machine has memory."""
    return pool_file(daemon, name).stat().st_blocks * 512


def beyond(daemon, end):
    """Whether any of these lie at or behind `end`."""
    with pool_file(daemon).open("rb") as pool:
        try:
            return os.lseek(pool.fileno(), end, os.SEEK_DATA) > 0
        except OSError as error:
            assert error.errno == errno.ENXIO
            return False


def test_a_smaller_pool_gives_memory_back_and_loses_nothing():
    with Lanewayd(*WORDS, pool="256MiB") as daemon, daemon.connect() as service:
        crowd = Crowd(service, 5)
        crowd.rounds(2)
        before = present(daemon)
        service.resize_pool(SMALL)
        assert pool_of(service)["capacity_bytes"] == pool_of(service)["wanted_bytes"] == 44 * MIB
        assert pool_of(service)["made_bytes"] == 256 * MIB
        wait_until(lambda: present(daemon) <= 44 * MIB < before, "the memory")
        assert all(
            piece["offset"] + piece["bytes"] <= 44 * MIB for piece in service.status()["map"]
        )
        crowd.rounds(2)
        assert present(daemon) <= 44 * MIB
        service.resize_pool("256MiB")
        crowd.rounds(2)
        assert all("pool" in where for where in places(service).values()), places(service)
        crowd.assert_undisturbed()
        crowd.close()


def test_memory_that_somebody_looks_at_meanwhile_is_given_back_too():
    """A standby maps the pages that there are, and may have seen some just before they went."""
    with Lanewayd(*WORDS, pool="256MiB") as daemon, daemon.connect() as service:
        crowd = Crowd(service, 2)
        crowd.rounds(1)
        service.resize_pool(SMALL)
        wait_until(lambda: present(daemon) <= 44 * MIB, "the memory")
        with pool_file(daemon).open("rb+") as pool:
            pool.seek(200 * MIB)
            pool.write(bytes(MIB))
        wait_until(lambda: not beyond(daemon, 44 * MIB), "the memory that came back")
        # What is used again stays.
        service.resize_pool("256MiB")
        crowd.rounds(2)
        crowd.assert_undisturbed()
        crowd.close()


def test_an_embedded_service_has_it_too():
    with laneway.embedded("256MiB", staging="256MiB") as service:
        crowd = Crowd(service, 5)
        crowd.rounds(1)
        service.resize_pool(44 * MIB)
        crowd.rounds(1)
        with pytest.raises(InvalidInput, match="at most 256 MiB"):
            service.resize_pool("257MiB")
        service.resize_pool("256MiB")
        crowd.rounds(1)
        crowd.assert_undisturbed()


class Trains(threading.Thread):
    """Goes round a crowd until it is told to stop; the error that ended it is raised by stop()."""

    def __init__(self, crowd):
        super().__init__()
        self.crowd, self.error, self.ended = crowd, None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.ended.is_set():
                self.crowd.rounds(1)
        except BaseException as error:
            self.error = error

    def stop(self):
        self.ended.set()
        self.join()
        if self.error is not None:
            raise self.error


# By whom, and the step of an image's way (or none: at once) at which it is killed.
DEATHS = ["worker", "broker", "worker.image_copied:3", "worker.image_placed:4", "broker twice"]


@pytest.mark.parametrize("death", DEATHS)
def test_it_shrinks_and_grows_while_all_of_it_runs_and_dies(death):
    fault = {"LANEWAY_FAULT": death} if ":" in death else {}
    with (
        Lanewayd(*WORDS, pool="256MiB", environment=fault) as daemon,
        daemon.connect() as service,
        daemon.connect() as operator,
    ):
        first = daemon.active_worker()
        crowd = Crowd(service, 5)
        trains = Trains(crowd)
        try:
            for size in (SMALL, "128MiB", SMALL, "256MiB", SMALL):
                operator.resize_pool(size)
                if ":" not in death:
                    daemon.kill(daemon.active_worker() if death == "worker" else daemon.broker())
                if death == "broker twice" and size == "128MiB":  # ten in all would end the service
                    daemon.kill(daemon.broker())
                assert pool_of(operator)["wanted_bytes"] == laneway.jobs.service.parse_bytes(size)
        finally:
            trains.stop()
        if "worker" in death:
            assert daemon.active_worker() != first, f"no worker died at {death}"
        crowd.rounds(1)
        assert pool_of(operator)["capacity_bytes"] == 44 * MIB
        crowd.assert_undisturbed()
        crowd.close()


def test_what_a_job_could_not_live_with_is_refused_by_the_command_line():
    with Lanewayd(*WORDS, pool=ROOM) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 3)
        crowd.rounds(1)

        def pool(size):
            return run("pool", size, "--json", address=daemon.address)

        for size, code, words in (
            ("nonsense", 2, "'nonsense' is not a size"),
            ("65MiB", 4, "give at most 64 MiB"),
            ("10MiB", 4, "could not run job 'crowd-"),
            ("0", 4, "leaves nothing for jobs"),
        ):
            done = pool(size)
            assert done.returncode == code, (size, done)
            assert words in done.stderr, done.stderr
        service.pin("crowd-1")
        service.pin("crowd-2")
        refused = pool("33MiB")
        assert refused.returncode == 4 and "pinned" in refused.stderr, refused.stderr
        service.unpin("crowd-2")
        assert json.loads(pool("44MiB").stdout) == {"pool_bytes": 44 * MIB}
        crowd.rounds(1)
        crowd.assert_undisturbed()


def test_one_that_waits_for_an_iteration_says_so_and_can_be_taken_back():
    """A long iteration holds what lies above; nobody else is held up for ever."""
    with laneway.embedded("256MiB", staging="256MiB") as service:
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Linear(1500, 1500) for _ in range(8)))
        step = laneway.train_step(
            model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.01),
            service=service, name="long",
        )  # fmt: skip
        batch = torch.randn(2000, 1500), torch.randn(2000, 1500)
        step(*batch).item()
        assert any(_is_held_up(service, step, batch) for _ in range(20))
        service.resize_pool("200MiB")
        step(*batch).item()


def _is_held_up(service, step, batch):
    """Whether an iteration was under way when the pool was to shrink. Before its turn began the
    core might hear of both at once, and shrink first."""
    answers = [step.submit(*batch) for _ in range(3)]
    wait_until(lambda: service.status()["lanes"][0]["running"] is not None, "its turn")
    try:
        with pytest.raises(Refused, match="what lies above has not left yet"):
            service.resize_pool("200MiB", timeout=0)
    except pytest.fail.Exception:
        return False
    finally:
        service.resize_pool("256MiB")
        for answer in answers:
            answer.result().item()
    return True
