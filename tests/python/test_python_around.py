"""Shows that what a step reads of Python is compared rightly when the process is forked between a
capture and its call, when steps are captured in several threads at once, and when a value
alternates between more values than a step keeps graphs.
"""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.both import batches, check_equal, net
from support.children import check_script
from support.eager import assert_same

# A step that reads an attribute, a container and a global, and the same in eager.
READING = """
class Config:
    factor, table = 2.0, {"shift": 0.5}

config, scale = Config(), 3.0

def loss_fn(output, target):
    loss = nn.functional.cross_entropy(output, target) * config.factor
    return loss * scale + config.table["shift"]

def trained(count, change=lambda number: None):
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(count):
        change(number)
        eager_step(model, loss_fn, optimizer, batch(number))
    return model.state_dict()

def made(service):
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return laneway.train_step(model, loss_fn, optimizer, service)
"""


def test_a_fork_between_capture_and_call() -> None:
    """The child changes what the step read, in its own memory, and cannot call; the parent's call
    uses the graph."""
    check_script(
        READING,
        """
    with laneway.embedded("64MiB") as service:
        step = made(service)
        step.capture(*batch(0))
        child = os.fork()
        if child == 0:
            config.factor, config.table["shift"], scale = 7.0, 9.0, 8.0
            try:
                step(*batch(0))
            except laneway.ServiceUnavailable:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        step(*batch(0))
        step(*batch(1))
        assert step.report()["captures"]["made"] == 1
        assert_same(trained(2), step.state_dict()["model"], "before the change")
        config.table["shift"], scale = 1.5, 2.0
        step(*batch(2))
        assert step.report()["captures"]["made"] == 2
        state = step.state_dict()["model"]
    config.table["shift"], scale = 0.5, 3.0

    def change(number):
        global scale
        if number == 2:
            config.table["shift"], scale = 1.5, 2.0

    assert_same(trained(3, change), state, "after the change")
    """,
    )


def test_a_child_of_a_fork_captures_for_itself() -> None:
    """What the parent's capture watched is watched anew in the child, with a service of its own."""
    check_script(
        READING,
        """
    with laneway.embedded("64MiB") as service:
        step = made(service)
        step(*batch(0))
        child = os.fork()
        if child == 0:
            with laneway.embedded("64MiB") as own:
                again = made(own)
                for number in range(3):
                    config.factor = 1.0 + number
                    again(*batch(number))
                found = again.state_dict()["model"]
            def change(number):
                config.factor = 1.0 + number
            expected = trained(3, change)
            os._exit(0 if all(torch.equal(found[k], expected[k]) for k in expected) else 1)
        assert os.waitpid(child, 0)[1] == 0
        step(*batch(1))
        assert step.report()["captures"]["made"] == 1
        assert_same(trained(2), step.state_dict()["model"], "the parent's")
    """,
    )


class Config:
    factor = 1.0


class Scaled(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.net, self.config = net(), config

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * self.config.factor


def test_captures_in_several_threads_at_once(service) -> None:
    """Each is of its own model, all read one configuration of one class; each call sees the value
    that was set before it."""
    config, count = Config(), 4
    torch.manual_seed(0)
    models = [Scaled(config) for _ in range(count)]
    twins = [[p.detach().clone() for p in model.parameters()] for model in models]
    steps = [
        laneway.train_step(
            m, F.cross_entropy, torch.optim.SGD(m.parameters(), lr=0.1), service, random="own"
        )
        for m in models
    ]
    together, failed = threading.Barrier(count), []

    def run(step):
        try:
            for number, batch in enumerate(batches(4)):
                if together.wait() == 0:
                    config.factor = 1.0 + number // 2
                together.wait()
                step(*batch)
        except BaseException as error:
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [step.report()["captures"]["made"] for step in steps] == [2] * count
    for step, begun in zip(steps, twins):
        twin = Scaled(Config())
        with torch.no_grad():
            for parameter, value in zip(twin.parameters(), begun):
                parameter.copy_(value)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        for number, (x, y) in enumerate(batches(4)):
            twin.config.factor = 1.0 + number // 2
            optimizer.zero_grad()
            F.cross_entropy(twin(x), y).backward()
            optimizer.step()
        assert_same(dict(twin.state_dict()), step.state_dict()["model"])


def test_a_value_that_alternates_beyond_the_limit_is_told_of_once(service) -> None:
    def job(lane):
        torch.manual_seed(0)
        config = Config()
        model = Scaled(config)
        predict = lane.inference(model)
        if hasattr(predict, "_variants"):
            predict._variants._limit = 2
        found = []
        for number in range(9):
            config.factor = 1.0 + number % 3
            found.append(predict(batches(1)[0][0]))
        return found

    with pytest.warns(RuntimeWarning, match=r"max_variants = 2") as told:
        assert check_equal(job, service).graphs() == 9
    assert len([each for each in told if "max_variants" in str(each.message)]) == 1


def test_a_value_that_alternates_within_the_limit_is_told_nothing_of(service) -> None:
    config = Config()
    predict = laneway.inference(Scaled(config), service, max_variants=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(100):
            config.factor = 1.0 + number % 3
            predict(batches(1)[0][0])
    assert predict._variants.counts() == {"made": 3, "kept": 3, "dropped": 0}
