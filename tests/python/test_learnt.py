"""What a policy has learnt outlives its broker: under sjf a job that was begun is not overtaken by
a shorter one, whichever broker decides."""

import threading
from collections import deque

import torch
from torch import nn

import laneway
from support.crowd import lines
from support.daemon import Lanewayd, wait_until

LONG, SHORT = 400, 100  # iterations, declared and done
IN_FLIGHT = 60


class Training:
    """Always has work until it has done what it declared."""

    def __init__(self, service, name, total):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        self._step = laneway.train_step(
            model,
            nn.functional.mse_loss,
            optimizer,
            service=service,
            name=name,
            sync="manual",
            total_iterations=total,
        )
        self._inputs = torch.ones(512, 256), torch.zeros(512, 256)
        self._step.prepare(*self._inputs)
        self._total = total
        self.done = 0
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._train)

    def begin(self):
        self._thread.start()
        return self

    def join(self):
        self._thread.join()
        assert self.over.is_set(), f"ended after {self.done} iterations"

    def _train(self):
        futures = deque()
        for _ in range(self._total):
            futures.append(self._step.submit(*self._inputs))
            if len(futures) == IN_FLIGHT:
                futures.popleft().result()
                self.done += 1
        for future in futures:
            future.result()
        self.done = self._total
        self.over.set()


def test_whom_sjf_began_is_not_overtaken_under_another_broker():
    words = ("--standby", "0", "--lanes", "1", "--policy", "sjf:age=off")
    with Lanewayd(*words) as daemon, daemon.connect() as service:
        longer = Training(service, "longer", LONG).begin()
        wait_until(lambda: longer.done > 10, "some iterations")
        shorter = Training(service, "shorter", SHORT).begin()
        # It is measured, and waits from then on.
        wait_until(lambda: lines(service)["shorter"]["iterations"] >= 2, "its first iterations")
        assert not longer.over.is_set()
        daemon.kill(daemon.broker())
        longer.over.wait()
        # It had turns only in moments in which the other one's queue was empty.
        assert not shorter.over.is_set(), f"after {shorter.done} iterations"
        for training in (longer, shorter):
            training.join()
        assert lines(service)["shorter"]["iterations"] == SHORT
