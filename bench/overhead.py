"""overhead: does a training step cost less through Laneway than in the eager loop at its best, and
what does it cost to have the engine in a service instead of in the process?

Each variant runs in a process of its own and the parent tells them in turn to run a trial. Eager
runs twice, with malloc as it comes and with a malloc that keeps what was freed (no page faults);
the faster of the two counts. All variants but inductor's must end with the same bits.

The cases `*_threads` have torch's own number of threads (OMP_NUM_THREADS, if that is set). Two
threads of a process with OpenMP threads of their own would slow each other down, and the user's
eager work: so eager is also measured beside an idle embedded service, against eager alone, both
with the malloc that keeps (page faults differ between two processes that do the same)."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass

from . import stats
from .harness import Calibration, Options, interleaved, progress
from .report import Report, Target, at_least
from .worker import Worker, WorkerFailed

KEEPING_MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
# variant -> (runner, environment)
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "eager": ("eager", {}),
    "eager_keep": ("eager", KEEPING_MALLOC),
    "embedded": ("embedded", {}),
    "embedded_inflight2": ("embedded_inflight2", {}),
    "service": ("service", {}),
    "service_inflight2": ("service_inflight2", {}),
    "inductor": ("inductor", KEEPING_MALLOC),
}
# Of the cases with torch's own number of threads.
THREADED: dict[str, tuple[str, dict[str, str]]] = {
    "eager": ("eager", {}),
    "eager_keep": ("eager", KEEPING_MALLOC),
    "eager_beside_embedded": ("eager_beside_embedded", KEEPING_MALLOC),
    "embedded": ("embedded", {}),
    "service": ("service", {}),
}
BASELINES = ("eager", "eager_keep")
SAME_BITS = (
    "eager",
    "eager_keep",
    "eager_beside_embedded",
    "embedded",
    "embedded_inflight2",
    "service",
    "service_inflight2",
)
IN_FLIGHT_OF_EMBEDDED = at_least(0.95)
THREADED_MEDIAN = at_least(0.97)
THREADED_MEAN = at_least(1.0)  # geometric, over the cases
BESIDE_EMBEDDED = at_least(0.98)


@dataclass(frozen=True)
class Case:
    name: str
    model: str
    form: str
    sync: Target | None = None
    in_flight: Target | None = None
    service: Target | None = None  # through a daemon, against eager
    threaded: bool = False  # with torch's own number of threads; its targets are for medians

    @property
    def variants(self) -> dict[str, tuple[str, dict[str, str]]]:
        return THREADED if self.threaded else VARIANTS


CASES = (
    Case("mlp", "mlp", "default", at_least(2), at_least(3), service=at_least(1.0)),
    Case("cnn", "cnn", "default", at_least(1.0), service=at_least(1.0)),
    Case("gpt", "gpt", "default", at_least(1.2), service=at_least(1.0)),
    Case("lstm", "lstm", "default", at_least(1.2), service=at_least(1.0)),
    Case("resnet18", "resnet18", "default", at_least(0.98), service=at_least(0.98)),
    Case("mlp_fused", "mlp", "fused"),
    Case("gpt_fused", "gpt", "fused"),
    Case("cnn_fused", "cnn", "fused"),
    *(
        Case(f"{model}_threads", model, "default", threaded=True)
        for model in ("mlp", "cnn", "gpt", "resnet18", "mobilenet_v3_small")
    ),
)


def cases() -> list[str]:
    return [case.name for case in CASES]


def run(options: Options) -> Report:
    report = Report("overhead")
    calibration = Calibration()
    for case in CASES:
        if options.wants(case.name):
            progress(f"overhead: {case.name}")
            _measure(case, options, report, calibration)
    _report_threaded_means(report)
    calibration.add_to(report)
    return report


def _measure(case: Case, options: Options, report: Report, calibration: Calibration) -> None:
    with ExitStack() as stack:
        workers, failed = _start(case, options, stack)
        trial_s = 0.05 if options.quick else 0.25
        iterations = _iterations(workers, trial_s)
        times: dict[str, list[list[int]]] = {name: [] for name in workers}
        faults = dict.fromkeys(workers, 0)
        for order in interleaved(list(workers), options.trials):
            calibration.sample()
            for name in order:
                reply = workers[name].trial(iterations)
                times[name].append(reply["times_ns"])
                faults[name] += reply["minor_faults"]
        done = iterations * options.trials
        notes = {
            name: [f"{faults[name] / done:.1f} page faults an iteration", *worker.about["notes"]]
            for name, worker in workers.items()
        }
        _report_times(case, times, notes, report)
        for name, reason in failed.items():
            report.add(case.name, f"{name}_us", None, "us", note=reason)
        if case.threaded:
            _report_threaded(case, times, failed, report)
        else:
            _report_ratios(case, times, failed, report)
        _report_bits(case, workers, report)


def _start(
    case: Case, options: Options, stack: ExitStack
) -> tuple[dict[str, Worker], dict[str, str]]:
    """Workers that are ready, and the reason for each variant that is not."""
    workers: dict[str, Worker] = {}
    failed: dict[str, str] = {}
    for name, (runner, environment) in case.variants.items():
        make = {"name": case.model, "seed": 0, "form": case.form, "runner": runner}
        threads = None if case.threaded else options.threads
        make |= {"threads": threads, "cores": list(options.cores)}
        worker = stack.enter_context(Worker(make, environment))
        try:
            worker.make()
            worker.trial(3)
            workers[name] = worker
        except WorkerFailed as error:
            failed[name] = str(error)
            progress(f"overhead: {case.name}: no {name}: {error}")
    missing = [name for name in BASELINES if name not in workers]
    if missing:
        raise WorkerFailed(f"{case.name}: {missing[0]} did not run: {failed[missing[0]]}")
    return workers, failed


def _iterations(workers: dict[str, Worker], trial_s: float) -> int:
    """Iterations a trial, so that an eager one takes about `trial_s`. Every worker warms up by as
    many, so that all have trained on the same batches."""
    probe = [worker.trial(5)["times_ns"] for worker in workers.values()]
    iterations = min(500, max(4, round(trial_s * 1e9 / stats.median(probe[0]))))
    for worker in workers.values():
        worker.trial(iterations)
    return iterations


def _report_times(
    case: Case, times: dict[str, list[list[int]]], notes: dict[str, list[str]], report: Report
) -> None:
    for name, trials in times.items():
        means = [sum(trial) / len(trial) / 1e3 for trial in trials]
        p99 = stats.percentile([t / 1e3 for trial in trials for t in trial], 99)
        note = ", ".join(notes[name])
        report.add(case.name, f"{name}_us", stats.median(means), "us", samples=means, note=note)
        report.add(case.name, f"{name}_p99_us", p99, "us")


def _report_ratios(
    case: Case, times: dict[str, list[list[int]]], failed: dict[str, str], report: Report
) -> None:
    means = {n: [sum(trial) / len(trial) for trial in trials] for n, trials in times.items()}
    eager = [means[name] for name in BASELINES]
    best = min(BASELINES, key=lambda name: stats.median(means[name]))
    comparisons = [
        ("embedded_over_eager", "embedded", eager, case.sync),
        ("embedded_inflight2_over_eager", "embedded_inflight2", eager, case.in_flight),
        ("embedded_over_inductor", "embedded", [means.get("inductor", [])], None),
        ("service_over_eager", "service", eager, case.service),
        ("service_inflight2_over_eager", "service_inflight2", eager, case.service),
        ("service_over_embedded", "service", [means.get("embedded", [])], None),
        (
            "service_inflight2_over_embedded",
            "service_inflight2",
            [means.get("embedded_inflight2", [])],
            IN_FLIGHT_OF_EMBEDDED if case.service else None,
        ),
    ]
    for metric, variant, baselines, target in comparisons:
        if variant not in means and variant not in failed:
            continue  # not among what was measured
        against = {"inductor": "inductor", "embedded": variant.replace("service", "embedded")}.get(
            metric.rpartition("_over_")[2], best
        )
        lacking = next((name for name in (variant, against) if name in failed), None)
        if lacking:
            note = f"{lacking}: {failed[lacking]}"
            report.add(case.name, metric, None, "ratio", target, note=note)
            continue
        ratio = stats.bootstrap_ratio(baselines, means[variant])
        note = f"lower end of 95 %; median {ratio.median:.3f}, against {against}"
        more = {"median": ratio.median, "high": ratio.high}
        report.add(case.name, metric, ratio.low, "ratio", target, note=note, **more)


def _report_threaded(
    case: Case, times: dict[str, list[list[int]]], failed: dict[str, str], report: Report
) -> None:
    means = {n: [sum(trial) / len(trial) for trial in trials] for n, trials in times.items()}
    for variant, metric, against, target in (
        ("embedded", "embedded_over_eager", BASELINES, THREADED_MEDIAN),
        ("service", "service_over_eager", BASELINES, THREADED_MEDIAN),
        (
            "eager_beside_embedded",
            "eager_beside_embedded_over_eager",
            ("eager_keep",),
            BESIDE_EMBEDDED,
        ),
    ):
        if variant in failed:
            report.add(case.name, metric, None, "ratio", target, note=failed[variant])
        elif variant in means:
            ratio = stats.bootstrap_ratio([means[name] for name in against], means[variant])
            note = f"median; 95 % from {ratio.low:.3f} to {ratio.high:.3f}"
            more = {"low": ratio.low, "high": ratio.high}
            report.add(case.name, metric, ratio.median, "ratio", target, note=note, **more)


def _report_threaded_means(report: Report) -> None:
    """Geometric means over the cases with torch's own number of threads that were measured."""
    cases = {case.name for case in CASES if case.threaded}
    for metric in ("embedded_over_eager", "service_over_eager"):
        rows = [r for r in report.rows if r["case"] in cases and r["metric"] == metric]
        if not rows:
            continue
        lacking = [row["case"] for row in rows if row["value"] is None]
        mean = None if lacking else math.prod(row["value"] for row in rows) ** (1 / len(rows))
        note = f"without {', '.join(lacking)}" if lacking else f"of {len(rows)} cases"
        report.add("all_threads", f"{metric}_mean", mean, "ratio", THREADED_MEAN, note=note)


def _report_bits(case: Case, workers: dict[str, Worker], report: Report) -> None:
    digests = {name: workers[name].digest() for name in SAME_BITS if name in workers}
    for name in digests:
        if name not in BASELINES:
            same = float(digests[name] == digests["eager"])
            report.add(case.name, f"{name}_state_equals_eager", same, "bool", at_least(1))
