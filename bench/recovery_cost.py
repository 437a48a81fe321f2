"""recovery_cost: what does a service pay for jobs whose state outlives a worker that dies?

Three services train the same model, in turns of the same rounds: one without recovery memory, one
that chooses its method, and one that is told to save everything that an iteration overwrites
(undo). A trial is the mean time of an iteration over enough of them for several snapshots; its
ratio to the trial without recovery memory of the same round, less one, is the share.
`*_neighbour`: the same for a small model in a second lane of that service, while the first
trains."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import laneway

from . import stats
from .daemon import Daemon
from .failover import Jobs
from .harness import Calibration, Options, interleaved, progress
from .models import NAMES, make, pool_for
from .report import Report, at_most

METHODS = {"none": ("--recovery-memory", "0"), "chosen": (), "undo": ("--recovery", "undo")}
NEIGHBOURS = ("resnet18", "vgg11")  # trained beside the small model
SMALL = "mlp"
TRIAL_S = 2.0
QUICK_TRIAL_S = 0.5
WARM_UP = 40  # iterations, until a method is chosen
SNAPSHOTS_A_TRIAL = 2
SHORT_US = 200.0  # an iteration that takes less may pay SHORT_COST_US
SHARE = at_most(0.03)
SHORT_COST_US = at_most(6.0)


def cases() -> list[str]:
    return [*NAMES, *(f"{name}_neighbour" for name in NEIGHBOURS)]


def run(options: Options) -> Report:
    report = Report("recovery_cost")
    calibration = Calibration()
    for case in cases():
        if not options.wants(case):
            continue
        progress(f"recovery_cost: {case}")
        try:
            if case.endswith("_neighbour"):
                _measure_neighbour(case, case.removesuffix("_neighbour"), options, report)
            else:
                _measure(case, options, calibration, report)
        except (OSError, RuntimeError) as error:
            report.add(case, "chosen_share", None, "share", SHARE, note=str(error))
    if calibration.samples_ms:
        samples = calibration.samples_ms
        report.add("calibration", "loop_ms", stats.median(samples), "ms", samples=samples)
    return report


@contextmanager
def _services(*names: str) -> Iterator[dict[str, tuple[Jobs, laneway.Service]]]:
    """For each method a service that trains the first name, and the service."""
    pool = sum(pool_for(make(name)) for name in names)
    with ExitStack() as stack:
        made = {}
        for method, words in METHODS.items():
            daemon = stack.enter_context(Daemon(pool, words=("--standby", "0", *words)))
            service = stack.enter_context(laneway.connect(daemon.address))
            made[method] = (Jobs(names[:1], service), service)
        yield made


def _mean_us(jobs: Jobs, iterations: int) -> float:
    start = time.perf_counter()
    for _ in range(iterations):
        jobs.train()
    return (time.perf_counter() - start) / iterations * 1e6


def _measure(name: str, options: Options, calibration: Calibration, report: Report) -> None:
    with _services(name) as made:
        for jobs, _ in made.values():
            _mean_us(jobs, WARM_UP)
        seconds = QUICK_TRIAL_S if options.quick else TRIAL_S
        count = max(2, round(seconds * 1e6 / _mean_us(made["none"][0], 2)))
        for jobs, _ in made.values():
            _mean_us(jobs, count)
        kept = made["chosen"][1].job_report(name)["recovery"]
        interval = int(kept["interval"])
        if kept["method"] == "snapshot":
            count = max(SNAPSHOTS_A_TRIAL, round(count / interval)) * interval
        times: dict[str, list[float]] = {method: [] for method in made}
        for order in interleaved(list(made), options.trials):
            calibration.sample()
            for method in order:
                times[method].append(_mean_us(made[method][0], count))
        kept = made["chosen"][1].job_report(name)["recovery"]
    _report(name, times, kept, report)


def _report(name: str, times: dict[str, list[float]], kept: dict, report: Report) -> None:
    plain = stats.median(times["none"])
    report.add(name, "iteration_us", plain, "us", samples=times["none"])
    for method in ("chosen", "undo"):
        pairs = list(zip(times[method], times["none"], strict=True))
        shares = [ours / alone - 1 for ours, alone in pairs]
        interval = stats.bootstrap_median(shares)
        chosen = method == "chosen"
        short = plain < SHORT_US
        note = f"upper end of 95 %; median {interval.median:.4f}"
        if chosen:
            note += f"; {kept['method']}, every {kept['interval']}"
        target = SHARE if chosen and not short else None
        report.add(name, f"{method}_share", interval.high, "share", target, samples=shares,
                   note=note, median=interval.median, low=interval.low)  # fmt: skip
        if chosen and short:
            costs = [ours - alone for ours, alone in pairs]
            cost = stats.bootstrap_median(costs)
            report.add(name, "chosen_cost_us", cost.high, "us", SHORT_COST_US, samples=costs,
                       note=f"upper end of 95 %; median {cost.median:.2f}")  # fmt: skip
    report.add(name, "interval", float(kept["interval"]), "iterations", note=kept["method"])
    report.add(name, "replay_s", float(kept["replay_s"]), "s", note="run again at most")
    report.add(
        name, "bytes", float(kept["bytes"]), "bytes", note="of the job; undo logs are lanes'"
    )


def _measure_neighbour(case: str, name: str, options: Options, report: Report) -> None:
    """The small model's iterations while `name` trains in another lane, without pause."""
    with _services(name, SMALL) as made:
        small = {method: Jobs([SMALL], service) for method, (_, service) in made.items()}
        times: dict[str, list[float]] = {method: [] for method in made}
        for method, (jobs, _) in made.items():
            _mean_us(jobs, WARM_UP)
            _mean_us(small[method], WARM_UP)
        count = round((QUICK_TRIAL_S if options.quick else TRIAL_S) * 1e6 / 500)
        for order in interleaved(list(made), options.trials):
            for method in order:
                with _training(made[method][0]):
                    times[method].append(_mean_us(small[method], count))
    for method in ("chosen", "undo"):
        pairs = zip(times[method], times["none"], strict=True)
        slower = [ours / alone for ours, alone in pairs]
        interval = stats.bootstrap_median(slower)
        report.add(case, f"{method}_slowdown", interval.high, "ratio", samples=slower,
                   note=f"upper end of 95 %; median {interval.median:.3f}")  # fmt: skip


@contextmanager
def _training(jobs: Jobs) -> Iterator[None]:
    ended = threading.Event()

    def train() -> None:
        while not ended.is_set():
            jobs.train()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
