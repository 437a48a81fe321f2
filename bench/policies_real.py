"""policies_real: does the order of policies that the simulator finds hold in a service?

The 100 trainings of traces/salus_shape_100.csv, 150 times faster, as trainings of lstm, cnn, gpt,
mobilenet_v3_small and resnet18 (row mod 5; two minutes of work), each captured before and offered
when it arrives: real_jobs.py. Cases: one lane and two, a pool for all images and for a third of
them; three seeds (weights, batches, draws), each three times. The machine is calibrated first
(`laneway calibrate`), and the same jobs are simulated from that before any of them runs.

`states_that_differ`: states in the end against eager PyTorch's, bit for bit; `iterations_missing`
of the declared. `ranking_as_simulated`: whether average job completion times put the policies in
the simulated order, policies within 5 % of each other in any. `fifo_over_srtf_of_simulated`: the
ratio of their average JCT over the simulated ratio. `makespan_of_plain`: in two lanes, fifo's over
the best of plain PyTorch (`plain`): one by one with 1 and with 2 threads, two at a time, all at
once, each in a process that was there before. What is compared is null where repeats differ by
more than 5 %."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from .harness import Calibration, Options, operator_threads, progress
from .real_jobs import (
    STORE,
    Job,
    Live,
    Plain,
    Ran,
    jobs_of,
    load,
    measure_here,
    pool_bytes,
    spread,
    write_trace,
)
from .report import Report, at_least, at_most
from .simulate import Simulated, simulate

POLICIES = ("fifo:age=off", "sjf:age=off", "srtf:age=off")
SEEDS, REPEATS = 3, 3
CALIBRATE_S, QUICK_CALIBRATE_S = 3.0, 0.4
QUICK_JOBS, QUICK_FASTER = 10, 700
SPREAD = 0.05
NEAR = 0.05
RATIO = at_least(0.9)
# width and threads
PLAIN = {"one_by_one": (1, 1), "one_by_one_2_threads": (1, 2), "two": (2, 1), "all": (1000, 1)}


@dataclass(frozen=True)
class Case:
    lanes: int
    part: float = 1.0  # of all images, that the pool has room for


CASES = {
    "1_lane": Case(1),
    "2_lanes": Case(2),
    "1_lane_third": Case(1, 1 / 3),
    "2_lanes_third": Case(2, 1 / 3),
}
QUICK_CASES = ("1_lane", "2_lanes")


@dataclass(frozen=True)
class Predicted:
    """The jobs, as simulated by case and policy before any of them ran."""

    jobs: list[Job]
    calibration: dict[str, Any]
    runs: dict[str, dict[str, Simulated]]


def cases() -> list[str]:
    return [*CASES, "plain"]


def wanted(options: Options) -> list[str]:
    of_kind = QUICK_CASES if options.quick else CASES
    return [name for name in of_kind if options.wants(name)]


def predict(options: Options, names: Sequence[str]) -> Predicted:
    """Calibrates the machine and simulates."""
    with tempfile.TemporaryDirectory(prefix="laneway-real-") as name:
        folder = Path(name)
        quick = options.quick
        file, found = measure_here(folder, QUICK_CALIBRATE_S if quick else CALIBRATE_S)
        jobs = jobs_of(found, QUICK_JOBS, QUICK_FASTER) if quick else jobs_of(found)
        trace = folder / "jobs.csv"
        write_trace(jobs, found, trace)
        runs = {}
        for case in names:
            lanes = CASES[case].lanes
            pool = pool_bytes(jobs, found, lanes, CASES[case].part)
            flags = ("--calibration", str(file), "--lanes", str(lanes), "--memory", str(pool))
            flags += ("--store", str(STORE))
            runs[case] = {policy: simulate(trace, policy, *flags) for policy in POLICIES}
        return Predicted(jobs, found, runs)


def measure(
    bench: str, case: str, predicted: Predicted, options: Options
) -> dict[str, dict[int, list[Ran]]]:
    """Runs of each policy by seed."""
    lanes = CASES[case].lanes
    pool = pool_bytes(predicted.jobs, predicted.calibration, lanes, CASES[case].part)
    seeds, repeats = (1, 2) if options.quick else (SEEDS, REPEATS)
    found: dict[str, dict[int, list[Ran]]] = {policy: {} for policy in POLICIES}
    for seed in range(seeds):
        for repeat in range(repeats):
            for policy in POLICIES if repeat % 2 == 0 else POLICIES[::-1]:
                progress(f"{bench}: {case}, seed {seed}, {policy}, run {repeat + 1}; {load()}")
                words = ("--policy", policy, "--lanes", str(lanes))
                with Live(predicted.jobs, seed, words, pool) as live:
                    found[policy].setdefault(seed, []).append(live.run())
    return found


def run(options: Options) -> Report:
    report = Report("policies_real")
    calibration = Calibration()
    names = wanted(options)
    with operator_threads(1):
        calibration.sample()
        predicted = predict(options, names)
        plain = run_plain(predicted.jobs, options)
        for case in names:
            calibration.sample()
            found = measure("policies_real", case, predicted, options)
            add(case, found, predicted, plain, report)
    add_plain(plain, report)
    calibration.sample()
    calibration.add_to(report)
    return report


def run_plain(jobs: Sequence[Job], options: Options) -> dict[str, list[Ran]]:
    """Of each variant, by seed; of all seeds at least the first variant, whose states count."""
    found: dict[str, list[Ran]] = {}
    variants = PLAIN if options.wants("plain") else dict([next(iter(PLAIN.items()))])
    for seed in range(1 if options.quick else SEEDS):
        for name, (width, threads) in variants.items():
            progress(f"policies_real: plain PyTorch, seed {seed}, {name}; {load()}")
            with ExitStack() as stack:
                plain = stack.enter_context(Plain(jobs, seed, width, threads))
                found.setdefault(name, []).append(plain.run())
    return found


def averages(runs: dict[int, list[Ran]]) -> list[float]:
    return [mean(run.jct_s) for all_ in runs.values() for run in all_]


def makespans(runs: dict[int, list[Ran]]) -> list[float]:
    return [run.makespan_s for all_ in runs.values() for run in all_]


def unsteady(*samples: Sequence[float]) -> str | None:
    """Why what these say is not compared; None: they are steady."""
    worst = max(spread(values) for values in samples)
    return f"repeats differ by {worst:.0%}, {load()}" if worst > SPREAD else None


def add(
    case: str,
    found: dict[str, dict[int, list[Ran]]],
    predicted: Predicted,
    plain: dict[str, list[Ran]],
    report: Report,
) -> None:
    for policy, runs in found.items():
        samples = averages(runs)
        report.add(case, f"{policy}/average_jct_s", median(samples), "s", samples=samples)
        samples = makespans(runs)
        report.add(case, f"{policy}/makespan_s", median(samples), "s", samples=samples)
    eager = [run.states for run in plain["one_by_one"]]
    report.add(case, "states_that_differ", float(differing(found, eager)), "jobs", at_most(0.0))
    report.add(
        case, "iterations_missing", float(missing(found, predicted.jobs)), "iterations",
        at_most(0.0),
    )  # fmt: skip
    live = {policy: median(averages(runs)) for policy, runs in found.items()}
    simulated = {
        policy: one.summary["average_jct_s"] for policy, one in predicted.runs[case].items()
    }
    why = unsteady(*(averages(runs) for runs in found.values()))
    same = None if why else float(is_ranked_as(live, simulated))
    report.add(case, "ranking_as_simulated", same, "bool", at_least(1.0), note=why)
    fifo, srtf = "fifo:age=off", "srtf:age=off"
    ratio = (live[fifo] / live[srtf]) / (simulated[fifo] / simulated[srtf])
    report.add(
        case, "fifo_over_srtf_of_simulated", None if why else ratio, "ratio", RATIO, note=why
    )
    if CASES[case].lanes == 2 and len(plain) == len(PLAIN):
        best = min(plain, key=lambda name: median([run.makespan_s for run in plain[name]]))
        theirs = [run.makespan_s for run in plain[best]]
        why = unsteady(makespans(found[fifo]), theirs)
        of_plain = median(makespans(found[fifo])) / median(theirs)
        report.add(
            case, "makespan_of_plain", None if why else of_plain, "ratio", at_most(1.0),
            note=why or f"best: {best}",
        )  # fmt: skip


def add_plain(plain: dict[str, list[Ran]], report: Report) -> None:
    for name, runs in plain.items():
        samples = [run.makespan_s for run in runs]
        report.add("plain", f"{name}/makespan_s", median(samples), "s", samples=samples)


def differing(found: dict[str, dict[int, list[Ran]]], eager: Sequence[Sequence[str]]) -> int:
    """States of jobs of all runs that are not those of plain PyTorch with the same seed."""
    return sum(
        mine != theirs
        for runs in found.values()
        for seed, all_ in runs.items()
        for run in all_
        for mine, theirs in zip(run.states, eager[seed], strict=True)
    )


def missing(found: dict[str, dict[int, list[Ran]]], jobs: Sequence[Job]) -> int:
    return sum(
        abs(job.iterations - done)
        for runs in found.values()
        for all_ in runs.values()
        for run in all_
        for job, done in zip(jobs, run.iterations, strict=True)
    )


def is_ranked_as(live: dict[str, float], simulated: dict[str, float]) -> bool:
    """Whether of each two that are further from each other than NEAR, simulated, the same is
    first."""
    return all(
        live[one] < live[other]
        for one in live
        for other in live
        if simulated[one] * (1 + NEAR) < simulated[other]
    )
