"""lanes: does the number of lanes that a service finds by measure do as much as the best number?

Trainings with iterations of 3 to 30 ms, two submissions in flight each, under `fair`. `one_thread`:
six jobs of one thread; `all_threads`: four jobs of which each uses all processors; `mixed`: two of
all processors and two of one thread, which fit badly beside the others. Variants: the
default (as many lanes as measured), and `--lanes` 1, 2 and 64, each a service of its own, in
rounds (A B B A). What is compared is the work done from 10 s after the begin on: iterations times
their time alone, of all jobs, over the time; time alone is a job's shortest call in any of the
services, each of which is asked before it is loaded, so that all variants are measured in the same
unit. `of_best`: the default's median over the best of the
others'; at least 0.9 is to be reached. `lanes` and `regions_mib` are what it had in the end."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, progress
from .one_lane import Client, product_s
from .report import Report, at_least

ITERATIONS_S = (0.003, 0.005, 0.008, 0.012, 0.020, 0.030)
VARIANTS = ("measured", "1", "2", "64")
# Whether each job uses all processors, else one thread.
CASES = {
    "one_thread": (False,) * 6,
    "all_threads": (True,) * 4,
    "mixed": (True, False, True, False),
}
IN_FLIGHT = 2
ROUNDS = 3
SETTLE_S, RUN_S = 10.0, 10.0
QUICK_S = 3.0
LEAST = 0.9


@dataclass(frozen=True)
class Seen:
    """What a service did in the time that counts."""

    rates: dict[str, float]  # iterations in each second, of each job
    alone: dict[str, float]  # its shortest call before there was load, in seconds
    lanes: int
    regions_mib: float


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("lanes")
    calibration = Calibration()
    for case in filter(options.wants, cases()):
        calibration.sample()
        seen: dict[str, list[Seen]] = {variant: [] for variant in VARIANTS}
        torch.set_num_threads(threads_of(all(CASES[case])))
        product = product_s()
        for number in range(1 if options.quick else ROUNDS):
            for variant in VARIANTS if number % 2 == 0 else VARIANTS[::-1]:
                progress(f"lanes: {case}, round {number + 1}, {variant}")
                seen[variant].append(measure(case, variant, product, options.quick))
        add(case, seen, report)
    calibration.add_to(report)
    return report


def threads_of(all_processors: bool) -> int:
    return (os.cpu_count() or 1) if all_processors else 1


def measure(case: str, variant: str, product: float, quick: bool) -> Seen:
    lanes = () if variant == "measured" else ("--lanes", variant)
    with ExitStack() as stack:
        daemon = Daemon("1GiB", words=("--standby", "0", "--policy", "fair", *lanes))
        daemon = stack.enter_context(daemon)
        service = stack.enter_context(laneway.connect(daemon.address))
        jobs, alone = [], {}
        for i, all_processors in enumerate(CASES[case]):
            torch.set_num_threads(threads_of(all_processors))  # a capture has those of its moment
            job = Client(service, f"job{i}", ITERATIONS_S[i], product)
            alone[job.name] = min(job.once() for _ in range(6))
            jobs.append(job)
        for job in jobs:
            stack.callback(job.end)
            job.begin(IN_FLIGHT)
        time.sleep(QUICK_S if quick else SETTLE_S)
        before, started = iterations(service.status()), time.monotonic()
        time.sleep(QUICK_S if quick else RUN_S)
        status, took = service.status(), time.monotonic() - started
        after = iterations(status)
        return Seen(
            rates={name: (after[name] - before[name]) / took for name in after},
            alone=alone,
            lanes=len(status["lanes"]),
            regions_mib=sum(region["bytes"] for region in status["regions"]) / 2**20,
        )


def iterations(status: dict[str, Any]) -> dict[str, int]:
    return {job["name"]: job["iterations"] for job in status["jobs"]}


def works(seen: dict[str, list[Seen]]) -> dict[str, list[float]]:
    """Of each run of each variant: seconds of iterations alone in each second."""
    runs = [run for all_ in seen.values() for run in all_]
    alone = {name: min(run.alone[name] for run in runs) for name in runs[0].alone}
    return {
        variant: [sum(rate * alone[name] for name, rate in run.rates.items()) for run in all_]
        for variant, all_ in seen.items()
    }


def of_best(seen: dict[str, list[Seen]]) -> float:
    """The default's median over the best median of the others."""
    medians = {name: statistics.median(work) for name, work in works(seen).items()}
    return medians.pop("measured") / max(medians.values())


def add(case: str, seen: dict[str, list[Seen]], report: Report) -> None:
    for variant, work in works(seen).items():
        report.add(case, f"work_{variant}", statistics.median(work), "s/s", samples=work)
    last = seen["measured"][-1]
    lanes = [float(one.lanes) for one in seen["measured"]]
    report.add(case, "lanes", statistics.median(lanes), "lanes", samples=lanes)
    report.add(case, "regions_mib", last.regions_mib, "MiB")
    report.add(case, "regions_mib_64", seen["64"][-1].regions_mib, "MiB")
    report.add(case, "of_best", of_best(seen), "ratio", at_least(LEAST))
