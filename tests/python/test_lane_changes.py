"""Jobs that change their lane: of three trainings in two lanes one stops, and of the two others,
which took turns, one goes to its lane. States and losses are those of jobs that never changed,
whatever dies just then."""

import contextlib
import threading

import pytest

import laneway
from support.crowd import Crowd, lines
from support.daemon import Lanewayd, wait_until

STEPS = 12
WIDTH = 300


def train_beside_each_other(crowd, names):
    """Each by a thread of its own."""
    wrong = []

    def train(name):
        try:
            for _ in range(STEPS):
                crowd.train(name)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=train, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def lanes_of(service):
    return {name: line["lane"] for name, line in lines(service).items()}


def the_two_of_a_lane(service):
    """The third one has nothing to run, so one of these goes to its lane."""
    lanes = lanes_of(service)
    shared = max(lanes.values(), key=list(lanes.values()).count)
    return [name for name, lane in lanes.items() if lane == shared]


def part(crowd, service):
    """Until those of one lane are in two."""
    names = the_two_of_a_lane(service)
    assert len(names) == 2, lanes_of(service)

    def parted():
        train_beside_each_other(crowd, names)
        lanes = lanes_of(service)
        return lanes[names[0]] != lanes[names[1]]

    wait_until(parted, "a job in another lane")


def test_who_waits_for_a_turn_goes_to_a_lane_with_nothing_to_run():
    with laneway.embedded("256MiB", lanes=2) as service:
        crowd = Crowd(service, 3, WIDTH)
        crowd.rounds(1)
        assert {line["lane"] for line in lines(service).values()} == {1, 2}
        part(crowd, service)
        train_beside_each_other(crowd, crowd.names)
        crowd.assert_undisturbed()
        crowd.close()


@pytest.mark.parametrize("point", ["worker.lane_changed", "broker"])
def test_who_changed_is_there_after_a_death(point):
    fault = {"LANEWAY_FAULT": point} if point != "broker" else {}
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Lanewayd("--lanes", "2", pool="256MiB", environment=fault))
        service = stack.enter_context(daemon.connect())
        crowd = Crowd(service, 3, WIDTH)
        crowd.rounds(1)
        first = daemon.active_worker()
        part(crowd, service)
        if point == "broker":
            daemon.kill(daemon.broker())
        else:
            assert daemon.active_worker() != first, "the one that changed a lane died of it"
        train_beside_each_other(crowd, crowd.names)
        crowd.assert_undisturbed()
        crowd.close()
