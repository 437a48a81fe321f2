"""Interleaved trials of several variants of one model on a device: workers that are set up side by
side, rounds forwards and backwards, as many as fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from .. import stats
from ..harness import interleaved, progress
from ..worker import Worker, WorkerFailed
from .runners import PLAIN
from .section import Section

WARM_UP = 12  # iterations: plans are made, recordings begin, compilers have seen what they will see
PROBE = 5


@dataclass
class Trials:
    """The workers that are ready, and why the others are not."""

    model: str
    workers: dict[str, Worker] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    times_ns: dict[str, list[list[int]]] = field(default_factory=dict)
    iterations: int = 0

    def means_us(self, variant: str) -> list[float]:
        """The mean of each round's trial."""
        return [sum(trial) / len(trial) / 1e3 for trial in self.times_ns[variant]]

    def run(self, section: Section, rounds: int, trial_s: float, seconds: float) -> None:
        """Up to `rounds` rounds, each trial as many iterations as the slowest variant needs
        `trial_s` for, as many as fit into `seconds`; at least two."""
        probes = [min(worker.trial(PROBE)["times_ns"]) for worker in self.workers.values()]
        self.iterations = min(400, max(3, round(trial_s * 1e9 / max(probes))))
        round_s = sum(probes) * self.iterations / 1e9 + 1e-3
        fitting = int(min(seconds, section.left()) / round_s)
        rounds = max(2, min(rounds, fitting))
        self.times_ns = {name: [] for name in self.workers}
        for order in interleaved(list(self.workers), rounds):
            section.calibration.sample()
            for name in order:
                self.times_ns[name].append(self.workers[name].trial(self.iterations)["times_ns"])

    def report(self, section: Section, case: str) -> None:
        """Medians and 99th percentiles, and the reasons of those that did not run."""
        for name, trials in self.times_ns.items():
            means, about = self.means_us(name), self.workers[name].about
            each = [t / 1e3 for trial in trials for t in trial]
            note = ", ".join(about["notes"]) or None
            section.add(case, f"{name}_us", stats.median(means), "us", samples=means, note=note)
            section.add(case, f"{name}_p99_us", stats.percentile(each, 99), "us")
            if "setup_s" in about:
                section.add(case, f"{name}_setup_s", about["setup_s"], "s")
        for name, reason in self.failed.items():
            section.add(case, f"{name}_us", None, "us", note=reason)

    def state_equals(self, one: str, other: str) -> bool | None:
        """Whether two variants ended with the same bits; None when one is not there."""
        if one not in self.workers or other not in self.workers:
            return None
        return self.workers[one].digest() == self.workers[other].digest()


def order_of(section: Section, model: str, runner: str) -> dict[str, Any]:
    """What a worker is told to make."""
    settings = section.settings
    device = settings.plain_device if runner in PLAIN else settings.device
    make = {"name": model, "seed": 0, "form": "default", "runner": runner}
    return make | {"threads": 1, "cores": [], "device": device}


@contextmanager
def ready(
    section: Section, model: str, variants: Iterable[str], timeout_s: float
) -> Iterator[Trials]:
    """Workers of the variants, set up side by side and warm; those that take longer than
    `timeout_s` for one answer count as failed."""
    trials = Trials(model)
    with ExitStack() as stack:
        workers = {}
        for name in variants:
            make = order_of(section, model, name)
            workers[name] = stack.enter_context(Worker(make, timeout_s=timeout_s))

        def set_up(name: str) -> str | None:
            try:
                workers[name].make()
                workers[name].trial(WARM_UP)
            except WorkerFailed as error:
                return str(error)
            return None

        with ThreadPoolExecutor(len(workers)) as pool:
            reasons = dict(zip(workers, pool.map(set_up, workers)))
        trials.workers = {name: w for name, w in workers.items() if reasons[name] is None}
        trials.failed = {name: why for name, why in reasons.items() if why is not None}
        for name, why in trials.failed.items():
            progress(f"{section.bench}: {model}: no {name}: {why}")
        yield trials


def compare_medians(trials: Trials, ours: str, theirs: str) -> list[float]:
    """By how many microseconds `ours` is slower than `theirs`, round by round: medians of
    trials."""
    pairs = zip(trials.times_ns[ours], trials.times_ns[theirs], strict=True)
    return [(stats.median(a) - stats.median(b)) / 1e3 for a, b in pairs]
