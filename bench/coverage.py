"""coverage: do the networks that people train work through Laneway, and at what speed?

One network of each of torchvision's families and several of Hugging Face's. For each: is the
training step captured; does it leave the bits of eager after five steps (parameters, buffers,
optimizer state); how many times as fast as eager at its best is it, waiting for every step (as in
overhead.py, with a quarter of --trials rounds, at least three)? A network that is not captured or
whose bits differ counts against its share, whatever the reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from . import models, stats
from .harness import Calibration, Options, interleaved, progress
from .overhead import BASELINES, KEEPING_MALLOC
from .report import Report, at_least
from .worker import Worker, WorkerFailed

STEPS = 5  # after which states are compared
OURS = "embedded"
VARIANTS = {"eager": ("eager", {}), "eager_keep": ("eager", KEEPING_MALLOC), OURS: (OURS, {})}


@dataclass
class Outcome:
    """What is known of one case. `means` are the mean times of each variant's trials, in ns."""

    captured: bool = False
    state_equal: bool = False
    means: dict[str, list[float]] | None = None


def cases() -> list[str]:
    return list(models.FAMILIES)


def run(options: Options) -> Report:
    report = Report("coverage")
    calibration = Calibration()
    outcomes = []
    for name in models.FAMILIES:
        if options.wants(name):
            progress(f"coverage: {name}")
            outcomes.append(_measure(name, options, report, calibration))
    _report_totals(outcomes, report)
    calibration.add_to(report)
    return report


def _measure(name: str, options: Options, report: Report, calibration: Calibration) -> Outcome:
    outcome = Outcome()
    with ExitStack() as stack:
        workers = {
            variant: stack.enter_context(_worker(name, variant, options)) for variant in VARIANTS
        }
        failed = _make(workers)
        for variant in BASELINES:
            if variant in failed:
                raise WorkerFailed(f"{name}: {variant} did not run: {failed[variant]}")
        outcome.captured = OURS not in failed
        setup_s = workers[OURS].about.get("setup_s", 0.0)
        note = f"set-up {setup_s:.1f} s" if outcome.captured else failed[OURS]
        report.add(name, "captured", float(outcome.captured), "bool", note=note)
        if not outcome.captured:
            report.add(name, "state_equal", 0.0, "bool", note="not captured")
            report.add(name, "speed_over_eager", None, "ratio", note="not captured")
            return outcome
        try:
            difference = _difference(workers)
            outcome.state_equal = difference is None
            report.add(name, "state_equal", float(difference is None), "bool", note=difference)
            outcome.means = _time(workers, options, calibration)
            _report_speed(name, outcome.means, report)
        except WorkerFailed as error:
            outcome.state_equal = False
            report.add(name, "speed_over_eager", None, "ratio", note=str(error))
    return outcome


def _worker(name: str, variant: str, options: Options) -> Worker:
    runner, environment = VARIANTS[variant]
    make = {"name": name, "seed": 0, "form": "default", "runner": runner}
    make |= {"threads": options.threads, "cores": list(options.cores)}
    return Worker(make, environment)


def _make(workers: dict[str, Worker]) -> dict[str, str]:
    """Makes all at once, nothing is timed here; the reason for each that failed."""
    failed: dict[str, str] = {}

    def make(variant: str) -> None:
        try:
            workers[variant].make()
        except WorkerFailed as error:
            failed[variant] = str(error)

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(make, workers))
    return failed


def _difference(workers: dict[str, Worker]) -> str | None:
    """None when ours and eager have the same bits after the first steps; else what differs."""
    for worker in workers.values():
        worker.trial(STEPS)
    theirs, ours = workers["eager"].digests(), workers[OURS].digests()
    different = [n for n in sorted(theirs | ours) if theirs.get(n) != ours.get(n)]
    if not different:
        return None
    return f"{len(different)} of {len(theirs)} tensors differ, the first is {different[0]}"


def _time(
    workers: dict[str, Worker], options: Options, calibration: Calibration
) -> dict[str, list[float]]:
    """Mean time of an iteration in each trial, in nanoseconds."""
    probe = {name: stats.median(worker.trial(2)["times_ns"]) for name, worker in workers.items()}
    trial_s = 0.1 if options.quick else 0.5
    iterations = min(200, max(2, round(trial_s * 1e9 / probe["eager"])))
    means: dict[str, list[float]] = {name: [] for name in workers}
    for order in interleaved(list(workers), max(3, options.trials // 4)):
        calibration.sample()
        for name in order:
            times = workers[name].trial(iterations)["times_ns"]
            means[name].append(sum(times) / len(times))
    return means


def _report_speed(name: str, means: dict[str, list[float]], report: Report) -> None:
    for variant, samples in means.items():
        us = [mean / 1e3 for mean in samples]
        report.add(name, f"{variant}_us", stats.median(us), "us", samples=us)
    ratio = stats.bootstrap_ratio([means[variant] for variant in BASELINES], means[OURS])
    note = f"lower end of 95 %; median {ratio.median:.3f}"
    more = {"median": ratio.median, "high": ratio.high}
    report.add(name, "speed_over_eager", ratio.low, "ratio", note=note, **more)


def _report_totals(outcomes: list[Outcome], report: Report) -> None:
    count = len(outcomes)
    for metric, holds in (
        ("captured_share", [outcome.captured for outcome in outcomes]),
        ("state_equal_share", [outcome.state_equal for outcome in outcomes]),
    ):
        share = sum(holds) / count
        note = f"{sum(holds)} of {count}"
        report.add("all", metric, share, "ratio", at_least(0.95), note=note)
    timed = [
        ([outcome.means[name] for name in BASELINES], outcome.means[OURS])
        for outcome in outcomes
        if outcome.means is not None
    ]
    metric, target = "speed_over_eager_median", at_least(0.98)
    if not timed:
        report.add("all", metric, None, "ratio", target, note="nothing was captured")
        return
    ratio = stats.bootstrap_median_ratio(timed)
    note = f"lower end of 95 %; median {ratio.median:.3f} of {len(timed)}"
    more = {"median": ratio.median, "high": ratio.high}
    report.add("all", metric, ratio.low, "ratio", target, note=note, **more)
