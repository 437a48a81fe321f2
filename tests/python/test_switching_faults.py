"""What happens while an image is on its way, or while an iteration is held for it: iterations that
are taken back, clients that go, disks that stall. The moment is held by a gate in the worker."""

import contextlib
import threading

import pytest
import torch
from torch import nn

import laneway
from support.crowd import lines
from support.daemon import Lanewayd, wait_until
from support.eager import assert_same
from support.gates import Gate, environment

LAYERS, WIDTH = 8, 768  # 18 MiB
INPUTS, TARGETS = torch.randn(4, WIDTH), torch.randn(4, WIDTH)


def deep(seed):
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def daemon(*gates, pool="128MiB", spill=None):
    words = ("--staging", "128MiB") if spill is None else (
        "--staging", "0", "--spill", f"{spill}:128MiB"
    )  # fmt: skip
    return Lanewayd(*words, "--prefix", "none", pool=pool, environment=environment(*gates))


def trained(service, name, seed):
    model = deep(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return laneway.train_step(
        model, nn.functional.mse_loss, optimizer, service=service, name=name, sync="manual"
    )


def expected_of(seed, iterations):
    """Losses and state of the same training where nothing happens."""
    with laneway.embedded("256MiB", staging=0) as service:
        step = trained(service, "alone", seed)
        losses = [step(INPUTS, TARGETS).item() for _ in range(iterations)]
        return losses, step.state_dict()


def away(service, name):
    service.unload(name)
    wait_until(lambda: lines(service)[name]["state"] == "away", f"{name} is away")


def arriving(service, name):
    line = lines(service).get(name)
    return line is not None and line["image"]["arriving"]


def assert_taken_back(future):
    with pytest.raises(laneway.ServiceUnavailable, match="cancelled"):
        future.result()


def assert_goes_on(step, seed, losses):
    """As if what was taken back had never been asked for."""
    losses = [*losses, step(INPUTS, TARGETS).item()]
    expected, state = expected_of(seed, len(losses))
    assert losses == expected
    assert_same(step.state_dict(), state)


def test_taken_back_while_the_image_arrives(tmp_path):
    gate, iteration = Gate(tmp_path, "image_part"), Gate(tmp_path, "iteration_begun")
    with daemon(gate, iteration) as running, running.connect() as service:
        step = trained(service, "one", 1)
        losses = [step(INPUTS, TARGETS).item()]
        away(service, "one")
        with gate.shut():
            with iteration.shut():
                begun = step.submit(INPUTS, TARGETS)
                iteration.wait()
            assert arriving(service, "one")
            queued = [step.submit(INPUTS, TARGETS) for _ in range(2)]
            assert queued[1].cancel() and queued[0].cancel()
            assert not begun.cancel()
        for future in queued:
            assert_taken_back(future)
        losses.append(begun.result().item())
        assert_goes_on(step, 1, losses)


@pytest.mark.parametrize("point", ["image_part", "image_saved"])
def test_taken_back_while_another_leaves(point, tmp_path):
    """Its room is not free yet, and nothing of it has begun."""
    gate = Gate(tmp_path, point)
    with daemon(gate, pool="80MiB") as running, running.connect() as service:
        one, two = trained(service, "one", 2), trained(service, "two", 3)
        losses = {"one": [one(INPUTS, TARGETS).item()], "two": [two(INPUTS, TARGETS).item()]}
        assert lines(service)["one"]["state"] == "away"
        with gate.shut():
            future = one.submit(INPUTS, TARGETS)
            wait_until(lambda: lines(service)["one"]["reason"] is not None, "it waits for room")
            assert future.cancel()
        assert_taken_back(future)
        assert_goes_on(two, 3, losses["two"])
        assert_goes_on(one, 2, losses["one"])


def test_taken_back_while_it_writes(tmp_path):
    gate = Gate(tmp_path, "commit_entered")
    with daemon(gate) as running, running.connect() as service:
        step = trained(service, "one", 4)
        losses = [step(INPUTS, TARGETS).item()]
        with gate.shut():
            begun = step.submit(INPUTS, TARGETS)
            gate.wait()
            queued = step.submit(INPUTS, TARGETS)
            assert queued.cancel()
            assert not begun.cancel()
        assert_taken_back(queued)
        losses.append(begun.result().item())
        assert_goes_on(step, 4, losses)


class Held:
    """A training that is held in the middle of an iteration, with another one queued behind it, for
    an urgent model whose image is on its way."""

    def __init__(self, folder):
        self._node = Gate(folder, "node_3_of_training")
        self._copy = Gate(folder, "image_part")
        self.gates = (self._node, self._copy)

    @contextlib.contextmanager
    def hold(self, training, urgent):
        """As long as the block goes on. The two are the services of their clients."""
        self.step = trained(training, "training", 5)
        self.losses = [self.step(INPUTS, TARGETS).item()]
        model = deep(6)
        with torch.no_grad():
            self.answer = model(INPUTS)
        self._urgent = laneway.inference(
            model, service=urgent, name="urgent", priority=5, sync="manual"
        )
        assert torch.equal(self._urgent(INPUTS), self.answer)
        away(training, "urgent")
        with self._copy.shut():
            with self._node.shut():
                self.futures = [self.step.submit(INPUTS, TARGETS) for _ in range(2)]
                self._node.wait()
                self.asked = self._urgent.submit(INPUTS)
                wait_until(lambda: arriving(training, "urgent"), "the other's bytes are arriving")
            wait_until(lambda: lines(training)["training"]["state"] == "paused", "it is held")
            yield


def test_taken_back_while_it_is_held(tmp_path):
    held = Held(tmp_path)
    with daemon(*held.gates) as running, running.connect() as service:
        with held.hold(service, service):
            begun, queued = held.futures
            assert queued.cancel()
            assert not begun.cancel()
            assert not held.asked.cancel()
        assert torch.equal(held.asked.result(), held.answer)
        assert_taken_back(queued)
        assert_goes_on(held.step, 5, [*held.losses, begun.result().item()])


def test_who_is_held_for_a_client_that_goes_goes_on(tmp_path):
    held = Held(tmp_path)
    with daemon(*held.gates) as running, running.connect() as service:
        with running.connect() as gone, held.hold(service, gone):
            gone.close()
        losses = [future.result().item() for future in held.futures]
        wait_until(lambda: service.status()["store"]["used_bytes"] == 0, "nothing of it is left")
        assert_goes_on(held.step, 5, held.losses + losses)


def test_a_client_that_goes_while_it_is_held_leaves_nothing(tmp_path):
    held = Held(tmp_path)
    with daemon(*held.gates) as running, running.connect() as service:
        with running.connect() as gone, held.hold(gone, service):
            gone.close()
        assert torch.equal(held.asked.result(), held.answer)
        inside = lines(service)["urgent"]["persistent_bytes"]
        wait_until(
            lambda: service.status()["pool"]["persistent_bytes"] == inside, "its range is free"
        )


@pytest.mark.parametrize("tier", ["store", "spill"])
def test_a_disk_that_stalls_in_the_middle_holds_nobody_else_up(tier, tmp_path):
    """On the way back, and on the way out."""
    coming, going = Gate(tmp_path, "image_part"), Gate(tmp_path, "image_copied")
    spill = tmp_path if tier == "spill" else None
    with daemon(coming, going, spill=spill) as running, running.connect() as service:
        worker = running.active_worker()
        small, few = nn.Linear(16, 16), torch.randn(3, 16)
        quick = laneway.inference(small, service=service, name="quick", sync="manual")

        def others_run():
            with torch.no_grad():
                for _ in range(20):
                    assert torch.equal(quick(few), small(few))

        slow = trained(service, "slow", 7)
        losses = [slow(INPUTS, TARGETS).item()]
        others_run()
        away(service, "slow")
        with coming.shut():
            future = slow.submit(INPUTS, TARGETS)
            wait_until(lambda: arriving(service, "slow"), "its bytes are arriving")
            others_run()
            assert not future.done()
            line = lines(service)["slow"]
            assert line["image"]["moved_bytes"] < line["persistent_bytes"]
        losses.append(future.result().item())
        with running.connect() as other:
            leaves = threading.Thread(target=other.unload, args=("slow",))
            with going.shut():
                leaves.start()
                going.wait()
                others_run()
                assert leaves.is_alive()
            leaves.join()
        future = slow.submit(INPUTS, TARGETS)
        losses.append(future.result().item())
        assert_goes_on(slow, 7, losses)
        assert running.active_worker() == worker, "nobody took it for a hang"
