"""A training that more urgent inferences interrupt between two operators: every bit of both is
eager's, and status and trace show how long it was held."""

import copy
import re
import subprocess
import threading

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import Quarantined
from support.crowd import lines
from support.daemon import Lanewayd, program, wait_until
from support.eager import assert_same, eager_step

WIDTH = 768
ITERATIONS = 4


def deep(seed, layers):
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))


def momentum(model):
    return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)


class Answers(threading.Thread):
    """Asks the urgent model again and again, from a client of its own."""

    def __init__(self, predict, inputs, expected):
        super().__init__()
        self._asked = (predict, inputs, expected)
        self._enough = threading.Event()
        self.wrong = 0
        self.count = 0
        self.refused = None

    def run(self):
        predict, inputs, expected = self._asked
        while not self._enough.is_set() and self.refused is None:
            try:
                self.wrong += not torch.equal(predict(inputs), expected)
            except Quarantined as error:
                self.refused = error
            self.count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self.join()


def trained_beside_urgent_answers(service, when_paused=lambda: None):
    """The states in which the training was seen, its last line of the status, and why no more was
    answered. Calls `when_paused` once, when it was seen to be held."""
    model, other = deep(1, 6), deep(2, 3).eval()
    inputs, targets = torch.randn(512, WIDTH), torch.randn(512, WIDTH)
    asked = torch.randn(256, WIDTH)
    with torch.no_grad():
        expected = other(asked)
    eager = copy.deepcopy(model)
    optimizer = momentum(eager)
    losses = [
        eager_step(eager, nn.functional.mse_loss, optimizer, (inputs, targets)).item()
        for _ in range(ITERATIONS + 1)
    ]
    step = laneway.train_step(
        model, nn.functional.mse_loss, momentum(model), service=service, name="training"
    )
    predict = laneway.inference(other, service=service, name="urgent", priority=5)
    assert torch.equal(predict(asked), expected)
    assert step(inputs, targets).item() == losses[0]
    states = set()

    def is_done():
        known = lines(service)
        if "training" not in known:  # of a broker that begins, before its worker has reported
            return False
        state = known["training"]["state"]
        if state == "paused" and state not in states:
            when_paused()
        states.add(state)
        return futures[-1].done()

    with Answers(predict, asked, expected) as answers:
        futures = [step.submit(inputs, targets) for _ in range(ITERATIONS)]
        wait_until(is_done, "the end of the training, however often it was interrupted")
    assert answers.count > 0 and answers.wrong == 0
    assert [future.result().item() for future in futures] == losses[1:]
    assert_same(step.state_dict()["model"], eager.state_dict())
    line = lines(service)["training"]
    predict.close()
    step.close()
    return states, line, answers.refused


def test_in_the_users_process():
    with laneway.embedded(pool="256MiB") as service:
        states, line, _ = trained_beside_urgent_answers(service)
    assert "paused" in states
    assert line["pauses"] > 0 and line["paused_s"] > 0


def test_through_a_daemon(tmp_path):
    trace = tmp_path / "trace"
    with Lanewayd("--trace", str(trace), pool="256MiB") as running, running.connect() as service:
        states, line, _ = trained_beside_urgent_answers(service)
    assert "paused" in states
    assert line["pauses"] > 0 and line["paused_s"] > 0
    text = subprocess.run(
        [str(program("laneway-trace")), str(trace)], check=True, capture_output=True, text=True
    ).stdout
    held = re.findall(r"TurnResumed turn \d+ after ([\d.]+) ms", text)
    assert len(held) == line["pauses"]
    assert sum(map(float, held)) == pytest.approx(1e3 * line["paused_s"], rel=0.01)
    assert re.search(r"'training'.*completed, [\d.]+ ms and [\d.]+ ms paused", text)


def test_jobs_of_one_priority_leave_each_other_alone():
    with laneway.embedded(pool="64MiB") as service:
        model = deep(3, 1)
        step = laneway.train_step(
            model, nn.functional.mse_loss, momentum(model), service=service, name="training"
        )
        predict = laneway.inference(deep(4, 1), service=service, name="other")
        inputs, targets = torch.randn(8, WIDTH), torch.randn(8, WIDTH)
        for _ in range(5):
            futures = [step.submit(inputs, targets) for _ in range(3)]
            predict(inputs)
            for future in futures:
                future.result()
        assert lines(service)["training"]["pauses"] == 0


@pytest.mark.parametrize("point", ["pausing", "paused", "resuming", "resumed"])
def test_a_worker_killed_at_any_step_of_a_pause_changes_nothing(point):
    environment = {"LANEWAY_FAULT": f"worker.{point}:2"}
    with Lanewayd(environment=environment) as running, running.connect() as service:
        trained_beside_urgent_answers(service)
        assert "ended: signal 9" in running.log()


def test_a_broker_killed_while_an_iteration_is_held_changes_nothing():
    with Lanewayd() as running, running.connect() as service:
        states, _, _ = trained_beside_urgent_answers(
            service, when_paused=lambda: running.kill(running.broker())
        )
    assert "paused" in states


def test_an_interrupter_that_crashes_is_blamed_alone():
    point = "worker.node_1_of_urgent"
    environment = {"LANEWAY_FAULT": f"{point}:4=segv", "LANEWAY_FAULT_AGAIN": f"{point}=segv;"}
    with Lanewayd(environment=environment) as running, running.connect() as service:
        states, line, refused = trained_beside_urgent_answers(service)
    assert refused is not None and "SIGSEGV" in str(refused)
    assert "quarantined" not in states and line["reason"] is None
