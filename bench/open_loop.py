"""Requests that come whether or not the ones before were answered (an open loop), and the queue
that nothing beats which serves them one at a time in the order of their arrival.

Pure, but for drive(): the same seed gives the same arrivals."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Arrival:
    at_s: float  # after the begin
    model: int
    number: int  # among the requests of this model: 0, 1, …


def zipf(models: int) -> list[float]:
    """Shares of models of which the n-th is asked an n-th as often as the first."""
    weights = [1 / (rank + 1) for rank in range(models)]
    return [weight / sum(weights) for weight in weights]


def poisson(
    rate_per_s: float,
    duration_s: float,
    models: int,
    seed: int,
    shares: Sequence[float] | None = None,
) -> list[Arrival]:
    """Arrivals with exponential gaps, each for a model that is drawn by its share; without shares
    uniformly."""
    chance = random.Random(seed)
    seen = [0] * models
    found = []
    at = chance.expovariate(rate_per_s)
    while at < duration_s:
        model = (
            chance.randrange(models) if shares is None else chance.choices(range(models), shares)[0]
        )
        found.append(Arrival(at, model, seen[model]))
        seen[model] += 1
        at += chance.expovariate(rate_per_s)
    return found


def rate_for(load: float, alone_s: Sequence[Sequence[float]]) -> float:
    """Requests a second that keep one server busy for the share `load` of the time, when each of
    the models, whose times alone these are, gets as many."""
    mean_s = sum(sum(times) / len(times) for times in alone_s) / len(alone_s)
    return load / mean_s


def ideal_latencies(arrivals: Sequence[Arrival], alone_s: Sequence[Sequence[float]]) -> list[float]:
    """Of a first-come queue with one server and no costs (Lindley's recursion: a request waits for
    what the one before it waited and took, less the gap between the two). The n-th request of a
    model takes as long as its n-th time alone, from the first one again after the last."""
    latencies = []
    free_at = 0.0
    for arrival in arrivals:
        times = alone_s[arrival.model]
        free_at = max(free_at, arrival.at_s) + times[arrival.number % len(times)]
        latencies.append(free_at - arrival.at_s)
    return latencies


def drive(
    arrivals: Sequence[Arrival], submit: Callable[[Arrival], Any]
) -> tuple[list[float], list[Any]]:
    """Submits each request at its time, on this thread, and takes the answers in their order on
    another one. Seconds from the scheduled arrival until the answer could be read, and the
    answers."""
    futures: queue.SimpleQueue[Any] = queue.SimpleQueue()
    latencies: list[float] = []
    answers: list[Any] = []
    begin = time.perf_counter() + 0.05

    def collect() -> None:
        for arrival in arrivals:
            future = futures.get()
            if future is None:
                return
            answers.append(future.result())
            latencies.append(time.perf_counter() - (begin + arrival.at_s))

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        for arrival in arrivals:
            left = begin + arrival.at_s - time.perf_counter()
            if left > 0:
                time.sleep(left)
            futures.put(submit(arrival))
    finally:
        futures.put(None)
        collector.join()
    return latencies, answers
