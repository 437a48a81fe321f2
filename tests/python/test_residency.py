"""Images that leave the pool while others need the room, and come back: states and losses are those
of jobs that never left, bit for bit, wherever the image was and whatever died meanwhile."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import InvalidInput, JobFailed, Refused
from laneway.jobs.control.residency import Looks
from support.cli import run
from support.crowd import ROOM, Crowd, lines, places
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same


def with_room_outside(kind, folder):
    """Options of lanewayd, and of an embedded service."""
    if kind == "store":
        return ("--staging", "256MiB"), {"staging": "256MiB"}
    if kind == "spill":
        return ("--staging", "0", "--spill", f"{folder}:256MiB"), {
            "staging": 0,
            "spill": f"{folder}:256MiB",
        }
    return ("--staging", "32MiB", "--spill", f"{folder}:256MiB"), {
        "staging": "32MiB",
        "spill": f"{folder}:256MiB",
    }


@pytest.mark.parametrize("kind", ["store", "spill", "both"])
def test_an_embedded_service_runs_more_jobs_than_its_pool_holds(kind, tmp_path):
    with laneway.embedded(ROOM, **with_room_outside(kind, tmp_path)[1]) as service:
        crowd = Crowd(service, 7)
        crowd.rounds(4)
        outside = places(service)
        states = [line["state"] for line in lines(service).values()]
        assert states.count("away") >= 3, states  # with one lane the pool has room for four
        used = {place for where in outside.values() for place in where} - {"pool"}
        assert used == ({"store", "spill"} if kind == "both" else {kind})
        crowd.assert_undisturbed()
        crowd.close()
        status = service.status()
        for tier in ("store", "spill"):
            assert status[tier] is None or status[tier]["used_bytes"] == 0


@pytest.mark.parametrize("kind", ["store", "spill", "both"])
def test_lanewayd_runs_more_jobs_than_its_pool_holds(kind, tmp_path):
    words = with_room_outside(kind, tmp_path)[0]
    with Lanewayd(*words, pool=ROOM) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 7)
        crowd.rounds(3)
        for kill in (daemon.active_worker, daemon.broker):
            daemon.kill(kill())  # most images are outside
            crowd.rounds(1)
        crowd.assert_undisturbed()
        crowd.close()


# Killed at each step of an image's way out and back, at the first and at a later one.
POINTS = (
    "image_part",
    "image_copied",
    "image_saved",
    "image_left",
    "image_written",
    "image_placed",
)


@pytest.mark.parametrize("nth", [1, 9])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_on_the_way_loses_nothing(point, nth, tmp_path):
    fault = {"LANEWAY_FAULT": f"worker.{point}:{nth}"}
    words = with_room_outside("both", tmp_path)[0]
    with Lanewayd(*words, pool=ROOM, environment=fault) as daemon, daemon.connect() as service:
        first = daemon.active_worker()
        crowd = Crowd(service, 6)
        crowd.rounds(4)
        assert daemon.active_worker() != first, f"no worker passed {point} {nth} times"
        crowd.assert_undisturbed()
        crowd.close()


@pytest.mark.parametrize("point", ["", "image_moving:2", "image_copied:1", "image_moved:1"])
def test_an_image_that_parts_what_is_free_moves_and_loses_nothing(point):
    """There is no room outside: an image of 33 MiB has room only beside one that has moved."""
    fault = {"LANEWAY_FAULT": f"worker.{point}"} if point else {}
    words = ("--staging", "0")
    with Lanewayd(*words, pool=ROOM, environment=fault) as daemon, daemon.connect() as service:
        first = daemon.active_worker()
        crowd = Crowd(service, 2)
        crowd.rounds(2)
        crowd.steps.pop(crowd.names[0]).close()
        torch.manual_seed(5)
        model = nn.Linear(2950, 2950).eval()
        inputs = torch.randn(1, 2950)
        assert torch.equal(laneway.inference(model, service=service)(inputs), model(inputs))
        assert (daemon.active_worker() != first) == bool(point)
        crowd.train(crowd.names[1])
        daemon.kill(daemon.broker())
        crowd.train(crowd.names[1])
        with laneway.embedded("1GiB", staging=0) as roomy:
            twin = Crowd(roomy, 2)
            for _ in range(4):
                twin.train(crowd.names[1])
            expected = twin.states()[crowd.names[1]]
        assert twin.losses[crowd.names[1]] == crowd.losses[crowd.names[1]]
        assert_same(expected, crowd.states()[crowd.names[1]], crowd.names[1])


def is_clean(service, name):
    """In the pool, with a whole copy outside: the place of one is claimed before."""
    return places(service)[name] == {"pool", "store"} and lines(service)[name]["image"]["clean"]


def test_idle_images_are_copied_out_ahead_of_need_and_work_makes_them_dirty():
    with laneway.embedded(ROOM, staging="256MiB") as service:
        crowd = Crowd(service, 4)
        crowd.rounds(1)
        wait_until(
            lambda: all(line["image"]["clean"] for line in lines(service).values()), "all copies"
        )
        inside = [name for name in crowd.names if is_clean(service, name)]
        assert inside, places(service)
        crowd.train(inside[0])
        assert places(service)[inside[0]] == {"pool"}
        crowd.rounds(2)
        crowd.assert_undisturbed()


def test_a_worker_killed_while_it_copies_ahead_loses_nothing():
    # One image leaves, and the other one is copied ahead.
    fault = {"LANEWAY_FAULT": "worker.image_copied:2"}
    words = ("--staging", "256MiB")
    with Lanewayd(*words, pool=ROOM, environment=fault) as daemon, daemon.connect() as service:
        first = daemon.active_worker()
        crowd = Crowd(service, 2)
        crowd.rounds(1)
        service.unload(crowd.names[0])
        assert daemon.active_worker() == first
        wait_until(lambda: daemon.active_worker() != first, "the worker's successor")
        wait_until(lambda: is_clean(service, crowd.names[1]), "the copy")
        daemon.kill(daemon.broker())
        crowd.rounds(2)
        crowd.assert_undisturbed()


def test_the_state_of_an_away_job_is_read_and_written(tmp_path):
    for kind in ("store", "spill"):
        words, options = with_room_outside(kind, tmp_path)
        with Lanewayd(*words, pool=ROOM) as daemon:
            for service in (daemon.connect(), laneway.embedded(ROOM, **options)):
                crowd = Crowd(service, 2)
                crowd.rounds(2)
                name = crowd.names[0]
                before = crowd.steps[name].state_dict()
                service.unload(name)
                assert places(service)[name] == {kind}
                read = crowd.steps[name].state_dict()
                assert all(
                    torch.equal(read["model"][key], value) for key, value in before["model"].items()
                )
                if kind == "store":
                    assert places(service)[name] == {kind}, "it was read where it is"
                service.unload(name)
                crowd.steps[name].load_state_dict(read)
                crowd.rounds(1)
                crowd.assert_undisturbed()
                service.close()


@pytest.mark.parametrize("point", ["", "worker.image_left"])
def test_a_job_that_is_away_keeps_nothing_in_the_recovery_memory(point):
    """Its copy outside is its state: no snapshot is kept beside it, nor by a successor of a worker
    that died before it gave the snapshot back. Back in the pool it has one again, and what is
    killed then loses nothing."""
    words = ("--staging", "256MiB", "--recovery", "snapshot:3", "--standby", "0")
    faults = {"LANEWAY_FAULT": point} if point else {}
    with Lanewayd(*words, pool=ROOM, environment=faults) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 2)
        crowd.rounds(4)
        name = crowd.names[0]
        image = lines(service)[name]["persistent_bytes"]

        def kept():
            return service.job_report(name)["recovery"]["bytes"]

        assert kept() > image
        service.unload(name)
        wait_until(lambda: places(service)[name] == {"store"}, "the job to be away")
        wait_until(lambda: kept() < image, "its snapshot to be given back")
        assert service.status()["recovery"]["used_bytes"] < 2 * image, "the other one's is left"
        crowd.rounds(2)
        assert kept() > image
        daemon.kill(daemon.active_worker())
        crowd.rounds(2)
        crowd.assert_undisturbed()


def test_loaded_unloaded_and_pinned_by_command(tmp_path):
    with Lanewayd("--staging", "128MiB", pool=ROOM) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 4)
        crowd.rounds(1)
        first = crowd.names[0]

        def command(*words, code=0):
            done = run(*words, address=daemon.address)
            assert done.returncode == code, done
            return done.stdout + done.stderr

        assert f"job {first} is in the pool" in command("load", first)
        assert "stays in the pool" in command("pin", first)
        assert "pinned" in command("unload", first, code=4)
        crowd.rounds(2)
        assert "pool" in places(service)[first]
        assert lines(service)[first]["image"]["pinned"]
        daemon.kill(daemon.active_worker())
        crowd.rounds(1)
        daemon.kill(daemon.broker())

        def is_pinned():
            line = lines(service).get(first)  # a broker that has no report yet knows of no job
            return line is not None and line["image"]["pinned"]

        wait_until(is_pinned, "the pin")
        assert "pinned" in command("jobs")
        assert "may leave" in command("unpin", first)
        assert "out of the pool" in command("unload", first)
        assert places(service)[first] == {"store"}
        assert "store" in command("status")
        assert "there is no job" in command("unload", "nobody", code=4)
        crowd.assert_undisturbed()
        with pytest.raises(InvalidInput, match="there is no job"):
            service.load("nobody")


@pytest.mark.parametrize("seconds", [0.0003, 0.02, 0.3, 30.0])
def test_a_slow_copy_is_not_looked_at_more_often_than_is_needed(seconds):
    size, now, looks, count = 256 << 20, 0.0, Looks(), 0
    while now < seconds:
        assert count < 12 + seconds / 0.2
        now += looks.pause(now, int(size * now / seconds), size)
        count += 1
    assert now <= max(1.2 * seconds, seconds + 0.0101), "and its end is seen"
    stands = Looks()
    pauses = [stands.pause(now, moved, size) for moved in (None, None, 5, 5, 5, 5, 5)]
    assert pauses == sorted(pauses) and pauses[-1] == 0.01, "nothing is known of when it ends"


def test_without_room_outside_nobody_leaves_and_the_reason_says_so():
    with laneway.embedded(ROOM, staging=0) as service:
        crowd = Crowd(service, 2)
        crowd.rounds(1)
        with pytest.raises(laneway.Error, match="--staging"):
            service.unload(crowd.names[0])
    with laneway.embedded(ROOM, staging="16MiB") as service:
        crowd = Crowd(service, 3)
        crowd.rounds(1)
        small = nn.Linear(6_000_000, 1)
        step = laneway.train_step(
            small,
            nn.functional.mse_loss,
            torch.optim.SGD(small.parameters(), 0.1),
            service=service,
            admission_timeout=2,  # longer than images stay at least
        )
        with pytest.raises(Refused, match="room to change places"):
            step(torch.ones(1, 6_000_000), torch.ones(1, 1))
        crowd.rounds(1)


def test_a_client_that_goes_leaves_nothing_outside(tmp_path):
    with Lanewayd(*with_room_outside("both", tmp_path)[0], pool=ROOM) as daemon:
        with daemon.connect() as service:
            crowd = Crowd(service, 6)
            crowd.rounds(1)
            status = service.status()
            assert status["store"]["used_bytes"] and status["spill"]["used_bytes"]
        with daemon.connect() as service:
            for tier in ("store", "spill"):
                wait_until(lambda tier=tier: not service.status()[tier]["used_bytes"], tier)
            Crowd(service, 6).rounds(2)


def test_an_idle_notebook_keeps_nobody_out():
    """It has a turn without a bound, and nothing to run."""
    with Lanewayd(pool=ROOM) as daemon, daemon.connect() as notebook, daemon.connect() as other:
        idle = Crowd(notebook, 2)
        idle.rounds(1)
        crowd = Crowd(other, 2)
        crowd.rounds(2)
        idle.rounds(1)
        idle.assert_undisturbed()
        crowd.assert_undisturbed()


def test_what_comes_back_from_the_file_with_other_bytes_ends_its_job_alone(tmp_path):
    words = with_room_outside("spill", tmp_path)[0]
    with Lanewayd(*words, pool=ROOM) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 3)
        crowd.rounds(1)
        first, second, third = crowd.names
        service.unload(second)
        service.unload(first)
        (file,) = (
            entry
            for entry in Path(f"/proc/{daemon.pid}/fd").iterdir()
            if str(tmp_path) in os.readlink(entry)
        )
        size = lines(service)[first]["persistent_bytes"]
        with file.open("r+b", buffering=0) as written:
            written.seek(size // 2)  # of the one that lies at its beginning
            written.write(b"rubbish")
        failed = []
        for name in (first, second):
            try:
                crowd.train(name)
            except JobFailed as error:
                assert "other bytes than were written" in str(error)
                failed.append(name)
        assert len(failed) == 1
        crowd.train(third)


def test_bad_options_are_refused_with_a_remedy(tmp_path):
    with pytest.raises(InvalidInput, match="FOLDER:SIZE"):
        laneway.embedded(ROOM, spill="64GiB")
    with pytest.raises(InvalidInput, match="No such file"):
        laneway.embedded(ROOM, spill=f"{tmp_path / 'none'}:1MiB")
    with pytest.raises(laneway.Error, match="ask for less"):
        laneway.embedded(ROOM, spill=f"{tmp_path}:8000GiB")
