"""Two kinds of threads: one trains a job through Laneway, the other sends requests to the job's
current weights."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from laneway.demo.workloads import Job, accuracy, train

REQUEST_EVERY_S = 0.01
REQUEST_ROWS = 32
WARM_UP = 3  # iterations that capture, probe and plan; not counted in the times


class Worker(abc.ABC):
    """A thread that keeps the exception that ended it. `stop` asks it to end; `join` waits."""

    def __init__(self, name: str, stop: threading.Event) -> None:
        self.error: BaseException | None = None
        self.stop = stop
        self._thread = threading.Thread(target=self._guarded, name=name)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def wait(self, seconds: float) -> None:
        """Waits until the thread ends, at most `seconds`."""
        self._thread.join(seconds)

    def alive(self) -> bool:
        return self._thread.is_alive()

    @abc.abstractmethod
    def work(self) -> None:
        """What the thread does until it is done or asked to stop."""

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as error:  # the main thread shows it and stops the others
            self.error = error
            self.stop.set()


class Training(Worker):
    """Trains one job through its Laneway step. Another thread may read the numbers at any time."""

    def __init__(self, job: Job, step: Callable[..., torch.Tensor], stop: threading.Event) -> None:
        super().__init__(job.name, stop)
        self.job = job
        self.step = step
        self.done = 0
        self.loss = float("nan")
        self.times_s: list[float] = []
        self._last = 0.0

    def warm_up(self) -> None:
        """Runs the first iterations, on the caller's thread: the step is captured, probed and
        planned."""
        train(self.step, self.job, WARM_UP, self._count)

    def work(self) -> None:
        self._last = time.perf_counter()
        train(self.step, self.job, self.job.iterations, self._seen, first=self.done)

    def _count(self, loss: float) -> bool:
        self.loss = loss
        self.done += 1
        return True

    def _seen(self, loss: float) -> bool:
        now = time.perf_counter()
        self.times_s.append(now - self._last)
        self._last = now
        return self._count(loss) and not self.stop.is_set()

    def recent_rate(self) -> float:
        """Iterations per second over about the last half second."""
        total, count = 0.0, 0
        for seconds in reversed(self.times_s):
            total, count = total + seconds, count + 1
            if total > 0.5:
                break
        return count / total if total else 0.0


class Requests(Worker):
    """Sends requests to a job's current weights until `until()` is true or it must stop."""

    def __init__(
        self,
        predict: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        until: Callable[[], bool],
        stop: threading.Event,
    ) -> None:
        super().__init__("requests", stop)
        self._predict, self._x, self._y, self._until = predict, x, y, until
        self.times_s: list[float] = []
        self.accuracy = float("nan")  # of the last answers

    def work(self) -> None:
        first = 0
        recent: list[float] = []
        while not self.stop.is_set() and not self._until():
            rows = slice(first, first + REQUEST_ROWS)
            started = time.perf_counter()
            answer = self._predict(self._x[rows])
            self.times_s.append(time.perf_counter() - started)
            recent = [*recent[-9:], accuracy(answer, self._y[rows])]
            self.accuracy = sum(recent) / len(recent)
            first = (first + REQUEST_ROWS) % (len(self._y) - REQUEST_ROWS)
            self.stop.wait(REQUEST_EVERY_S)


def times_text(seconds: list[float]) -> str:
    """Mean, 99th percentile and number of the times."""
    ms = np.asarray(seconds) * 1e3
    return f"mean {ms.mean():.3f} ms, p99 {np.percentile(ms, 99):.3f} ms, of {len(ms)}"


def lane_and_bytes(status: dict[str, Any], name: str) -> tuple[str, int, int]:
    """A job's lane, persistent and ephemeral bytes, from the service's status."""
    job = next((job for job in status["jobs"] if job["name"] == name), None)
    if job is None:
        return "-", 0, 0
    lane = "-" if job["lane"] is None else str(job["lane"])
    return lane, job["persistent_bytes"], job["ephemeral_bytes"]
