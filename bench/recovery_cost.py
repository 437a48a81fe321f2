"""recovery_cost: what does a service pay for jobs whose state outlives a worker that dies?

First an ordinary service trains the model, until its job has chosen a method. Then one worker does
all three in rotation (`--recovery rotate:BLOCK:INTERVAL`): blocks of iterations with nothing, with
undo, with snapshots, snapshots, undo, nothing, and so on. The client times each iteration. Three
blocks next to each other make one comparison; from all of them comes a Hodges-Lehmann estimate with
its interval. So all that differs between two processes, or drifts, is the same for all methods.

A share is what an iteration takes longer, by what it takes with nothing. The first iteration of
another block is left out, because it finds other things in the caches than in a service that does
one thing only; that of snapshots has the snapshot. A block that is shorter than the interval chosen
has one snapshot too many for its iterations: the share is then that of an interval with one.

`*_neighbour`: by how much a small model's iterations take longer in a second lane, while the first
one trains so."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import laneway

from . import stats
from .daemon import Daemon
from .failover import Jobs
from .harness import Calibration, Options, progress
from .models import NAMES, make, pool_for
from .report import Report, at_most

NEIGHBOURS = ("resnet18", "vgg11")  # trained beside the small model
SMALL = "mlp"
ROUND = ("none", "undo", "snapshot", "snapshot", "undo", "none")
METHODS = ROUND[:3]
TRIAL_S = 5.0  # of --trials; thirty are measured in 150 s
NEIGHBOUR_PART = 0.6  # of the time of a model
BLOCK_S = 0.05
LEAST_BLOCK = 3  # iterations
LONGEST_BLOCK_S = 1.0  # to have the chosen interval in it
CHOICES = 40  # iterations until the method was chosen twice
CHOICE_S = 2.0
WARM_UP_S = 3.0
SHORT_US = 200.0  # an iteration that takes less may pay SHORT_COST_US
SHARE = at_most(0.03)
SHORT_COST_US = at_most(6.0)


def cases() -> list[str]:
    return [*NAMES, *(f"{name}_neighbour" for name in NEIGHBOURS)]


def run(options: Options) -> Report:
    report = Report("recovery_cost")
    calibration = Calibration()
    seconds = TRIAL_S * options.trials
    for case in cases():
        if not options.wants(case):
            continue
        progress(f"recovery_cost: {case}")
        try:
            if case.endswith("_neighbour"):
                name = case.removesuffix("_neighbour")
                _measure_neighbour(case, name, seconds * NEIGHBOUR_PART, report)
            else:
                _measure(case, seconds, calibration, report)
        except (OSError, RuntimeError) as error:
            report.add(case, "chosen_share", None, "share", SHARE, note=str(error))
    calibration.add_to(report)
    return report


@dataclass(frozen=True)
class Choice:
    """What an ordinary service does for a job, as it reports it."""

    method: str
    interval: int
    replay_s: float
    bytes: int
    iteration_s: float

    def rotation(self) -> tuple[int, int]:
        """Iterations of a block, and between snapshots in it."""
        block = max(LEAST_BLOCK, round(BLOCK_S / self.iteration_s))
        if self.method != "snapshot":
            return block, block
        if self.interval <= block:
            return math.ceil(block / self.interval) * self.interval, self.interval
        if self.interval * self.iteration_s <= LONGEST_BLOCK_S:
            return self.interval, self.interval
        return block, block


def _choice(name: str) -> Choice:
    with _service([name]) as service:
        jobs = Jobs([name], service)
        end = time.perf_counter() + CHOICE_S
        times: list[float] = []
        while len(times) < CHOICES or time.perf_counter() < end:
            start = time.perf_counter()
            jobs.train()
            times.append(time.perf_counter() - start)
        kept = service.job_report(name)["recovery"]
        return Choice(
            method=kept["method"],
            interval=int(kept["interval"]),
            replay_s=float(kept["replay_s"]),
            bytes=int(kept["bytes"]),
            iteration_s=stats.median(times),
        )


@contextmanager
def _service(names: Sequence[str], *words: str) -> Iterator[laneway.Service]:
    pool = sum(pool_for(make(name)) for name in names)
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(pool, words=("--standby", "0", *words)))
        yield stack.enter_context(laneway.connect(daemon.address))


@dataclass
class Comparison:
    """Seconds of every iteration of three blocks next to each other, by method; `span` is when
    each began and ended."""

    times: dict[str, list[float]] = field(default_factory=dict)
    span: dict[str, tuple[float, float]] = field(default_factory=dict)

    def plain(self) -> float:
        return _mean(self.times["none"][1:])

    def undo(self) -> float:
        """The mean seconds by which an iteration with undo takes longer."""
        return _mean(self.times["undo"][1:]) - self.plain()

    def snapshot(self, interval: int, chosen: int) -> float:
        """The same with snapshots at the interval `chosen`, taken at `interval` in here. Beyond the
        latter an iteration costs what the later ones of a block do."""
        times, plain = self.times["snapshot"], self.plain()
        extra = _mean(times) - plain
        if chosen <= interval:
            return extra
        rest = times[min(2, len(times) - 1) :]
        return (extra * interval + (_mean(rest) - plain) * (chosen - interval)) / chosen


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rotation(jobs: Jobs, block: int, seconds: float) -> Iterator[Comparison]:
    """Comparisons for so long. The worker counts iterations from the first one on."""
    warm = time.perf_counter() + WARM_UP_S
    end = warm + seconds
    while time.perf_counter() < end:
        for order in (ROUND[:3], ROUND[3:]):
            comparison = Comparison()
            for method in order:
                times = []
                begin = before = time.perf_counter()
                for _ in range(block):
                    jobs.train()
                    now = time.perf_counter()
                    times.append(now - before)
                    before = now
                comparison.times[method] = times
                comparison.span[method] = (begin, before)
            if comparison.span[order[0]][0] >= warm:
                yield comparison


def _measure(name: str, seconds: float, calibration: Calibration, report: Report) -> None:
    choice = _choice(name)
    block, interval = choice.rotation()
    words = ("--recovery", f"rotate:{block}:{interval}")
    with _service([name], *words) as service:
        found = []
        for comparison in _rotation(Jobs([name], service), block, seconds):
            found.append(comparison)
            if len(found) % 16 == 1:
                calibration.sample()  # in between: the worker waits
    _report(name, found, choice, interval, report)


def _report(
    name: str, found: Sequence[Comparison], choice: Choice, interval: int, report: Report
) -> None:
    plain = [1e6 * one.plain() for one in found]
    plain_us = stats.median(plain)
    report.add(name, "iteration_us", plain_us, "us", samples=plain)
    wanted = choice.interval if choice.method == "snapshot" else interval
    costs_us = {
        "undo": [1e6 * one.undo() for one in found],
        "snapshot": [1e6 * one.snapshot(interval, wanted) for one in found],
    }
    for method, costs in {"chosen": costs_us.get(choice.method), **costs_us}.items():
        if costs is None:
            report.add(name, f"{method}_share", None, "share", SHARE, note="no method was chosen")
            continue
        chosen, short = method == "chosen", plain_us < SHORT_US
        shares = [cost / alone for cost, alone in zip(costs, plain, strict=True)]
        share = stats.hodges_lehmann(shares)
        note = f"upper end of 95 %; estimate {share.median:.4f}"
        if method == "snapshot" or (chosen and choice.method == "snapshot"):
            note += f"; every {wanted}" + (f", by blocks of {interval}" * (interval < wanted))
        report.add(name, f"{method}_share", share.high, "share", SHARE if chosen and not short
                   else None, samples=shares, note=note, median=share.median,
                   low=share.low)  # fmt: skip
        if chosen and short:
            cost = stats.hodges_lehmann(costs)
            report.add(name, "chosen_cost_us", cost.high, "us", SHORT_COST_US, samples=costs,
                       note=f"upper end of 95 %; estimate {cost.median:.2f}", median=cost.median,
                       low=cost.low)  # fmt: skip
    report.add(name, "interval", float(choice.interval), "iterations", note=choice.method)
    report.add(name, "replay_s", choice.replay_s, "s", note="run again at most")
    report.add(name, "bytes", float(choice.bytes), "bytes", note="of the job; undo logs are lanes'")


def _measure_neighbour(case: str, name: str, seconds: float, report: Report) -> None:
    """The small model's iterations while `name` trains in another lane, without pause. Its own
    methods change too, many times in each block of the other one."""
    choice = _choice(name)
    block, interval = choice.rotation()
    words = ("--recovery", f"rotate:{block}:{interval}")
    with _service([name, SMALL], *words) as service, _training(service) as times:
        found = list(_rotation(Jobs([name], service), block, seconds))
    for method in ("chosen", "undo", "snapshot"):
        wanted = choice.method if method == "chosen" else method
        slower = [_slowdown(one, times, wanted) for one in found]
        known = [value for value in slower if value is not None]
        if not known:
            report.add(case, f"{method}_slowdown", None, "ratio", note="too few iterations")
            continue
        ratio = stats.hodges_lehmann(known)
        note = f"upper end of 95 %; estimate {ratio.median:.3f}; {wanted}"
        if wanted == "snapshot":
            note += f", every {interval}"
        report.add(case, f"{method}_slowdown", ratio.high, "ratio", samples=known, note=note,
                   median=ratio.median, low=ratio.low)  # fmt: skip


def _slowdown(one: Comparison, ends: Sequence[tuple[float, float]], method: str) -> float | None:
    """The mean iteration of the small job in the method's block, by that in the one with nothing;
    `ends` has the end of each iteration, in order, and what it took."""
    means = []
    for begin, end in (one.span[method], one.span["none"]):
        first, behind = bisect(ends, (begin,)), bisect(ends, (end,))
        inside = [took for at, took in ends[first:behind] if at - took >= begin]
        if not inside:
            return None
        means.append(_mean(inside))
    return means[0] / means[1]


@contextmanager
def _training(service: laneway.Service) -> Iterator[list[tuple[float, float]]]:
    """The small model trains meanwhile; the list is filled."""
    jobs = Jobs([SMALL], service)
    jobs.train()
    times: list[tuple[float, float]] = []
    ended = threading.Event()

    def train() -> None:
        before = time.perf_counter()
        while not ended.is_set():
            jobs.train()
            now = time.perf_counter()
            times.append((now, now - before))
            before = now

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield times
    finally:
        ended.set()
        thread.join()
