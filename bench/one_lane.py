"""Jobs with iterations of a chosen length, and clients that keep them busy in one lane, for the
benches fairness and starvation."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import deque
from typing import Any

import torch

import laneway

from .daemon import daemon_program

SIZE = 192  # of the matrices that a job multiplies
QUANTUM_S = 0.02  # policies/fair.h


def policies() -> list[str]:
    """The names that the service knows, from its refusal of another one."""
    command = [str(daemon_program()), "--policy", "none-is-called-so"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return names_in(told.stdout + told.stderr)


def names_in(refusal: str) -> list[str]:
    found = re.search(
        r"known policies are: ([a-z0-9_, ]+?)(?:, and files.*)?$", refusal, re.MULTILINE
    )
    if not found:
        raise RuntimeError(f"lanewayd names no policies: {refusal.strip()!r}")
    return [name.strip() for name in found.group(1).split(",")]


class Multiply(torch.nn.Module):
    """`times` products of matrices, one after another."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.weight = torch.nn.Parameter(torch.eye(SIZE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = torch.tanh(x @ self.weight)
        return x


def product_s() -> float:
    """Seconds of a training step of one product more, eager and alone."""
    torch.set_num_threads(1)  # as the lane has
    took = []
    for times in (4, 24):
        model, x = Multiply(times), torch.ones(SIZE, SIZE)
        best = float("inf")
        for _ in range(5):
            started = time.perf_counter()
            model(x).sum().backward()
            best = min(best, time.perf_counter() - started)
        took.append(best)
    return max((took[1] - took[0]) / 20, took[1] / 48)  # a disturbed one is still of its order


class Client:
    """A training whose iterations take about `seconds`; begin() keeps some in flight."""

    def __init__(self, service: Any, name: str, seconds: float, product: float, **options: Any):
        model = Multiply(max(1, round(seconds / product)))
        optimizer = torch.optim.SGD(model.parameters(), 1e-6)
        self.name = name
        self.step = laneway.train_step(
            model,
            torch.nn.functional.mse_loss,
            optimizer,
            service=service,
            name=name,
            sync="manual",
            **options,
        )
        self.inputs = (torch.ones(SIZE, SIZE), torch.zeros(SIZE, SIZE))
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def once(self) -> float:
        """Seconds of a call that waits for its result."""
        started = time.perf_counter()
        self.step.submit(*self.inputs).result().item()
        return time.perf_counter() - started

    def begin(self, in_flight: int) -> None:
        self._thread = threading.Thread(target=self._keep, args=(in_flight,))
        self._thread.start()

    def _keep(self, in_flight: int) -> None:
        try:
            futures: deque[Any] = deque()
            while not self._ended.is_set():
                while len(futures) < in_flight:
                    futures.append(self.step.submit(*self.inputs))
                futures.popleft().result()
            while futures:
                futures.popleft().result()
        except BaseException as error:  # end() raises it
            self._error = error

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error


def device_times(service: Any) -> dict[str, float]:
    return {job["name"]: job["device_time_s"] for job in service.status()["jobs"]}
