"""pairs: who computes beside whom, by jobs whose speeds beside each other were measured on GPUs?

The core in virtual time (simulator/), in two lanes that slow each other down as Gavel measured it
for 26 kinds of trainings on three GPUs (Narayanan et al., OSDI 2020): a CSV file
gavel_colocation_pairs.csv in the folder that `--traces` names, with the columns gpu, job_a, job_b,
iso_a_it_s, iso_b_it_s, norm_a, norm_b; without it rows are null. Of each seed a hundred jobs, each
of a kind by chance and of 100 to 1,000 s alone, come at once. What is compared is the makespan over
that of one lane, for the mean of all seeds:

`known`: an event simulation of its own in which who comes first takes the next free lane, pairs
whose sum of speeds is above 1.05 compute together, and others take turns; it knows all speeds from
the start. `trials` is fifo in as many lanes as pay by measure (the default of a service), which
must do it within 1.05 of that; `always` is fifo in both lanes."""

from __future__ import annotations

import csv
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .harness import Options, progress
from .report import Report, at_most
from .simulate import simulate

FILE = "gavel_colocation_pairs.csv"
GPUS = ("v100", "p100", "k80")
JOBS = 100
SEEDS, QUICK_SEEDS = 20, 3
TOGETHER = 1.05  # sum of speeds above which two compute beside each other
WITHIN = 1.05
VARIANTS = {
    "trials": ("fifo:age=off", ("--lanes", "2", "--open-lanes", "measured")),
    "always": ("fifo:age=off", ("--lanes", "2")),
}


@dataclass(frozen=True)
class Pairs:
    """Of one GPU."""

    speeds: dict[tuple[str, str], tuple[float, float]]  # both orders; 0 and 0: never together
    iterations_per_s: dict[str, float]  # alone, by kind


@dataclass(frozen=True)
class Job:
    kind: str
    iterations: int
    iteration_ms: float

    def length_s(self) -> float:
        return self.iterations * self.iteration_ms / 1e3


def cases() -> list[str]:
    return list(GPUS)


def run(options: Options) -> Report:
    report = Report("pairs")
    path = options.traces / FILE if options.traces else None
    for gpu in filter(options.wants, GPUS):
        if path is None or not path.exists():
            note = f"{path} is missing" if path else f"--traces DIR: the folder of {FILE}"
            report.add(gpu, "trials_of_known", None, "ratio", at_most(WITHIN), note=note)
            continue
        measure(gpu, read(path, gpu), QUICK_SEEDS if options.quick else SEEDS, report)
    return report


def measure(gpu: str, pairs: Pairs, seeds: int, report: Report) -> None:
    found: dict[str, list[float]] = {name: [] for name in ("known", *VARIANTS)}
    for seed in range(seeds):
        progress(f"pairs: {gpu}, seed {seed}")
        jobs = drawn(pairs, seed)
        alone = sum(job.length_s() for job in jobs)
        found["known"].append(known(jobs, pairs) / alone)
        for name, makespan in simulated(jobs, pairs).items():
            found[name].append(makespan / alone)
    for name, ratios in found.items():
        report.add(gpu, name, statistics.mean(ratios), "of one lane", samples=ratios)
    mean = {name: statistics.mean(ratios) for name, ratios in found.items()}
    report.add(gpu, "trials_of_known", mean["trials"] / mean["known"], "ratio", at_most(WITHIN))


def read(path: Path, gpu: str) -> Pairs:
    pairs = Pairs({}, {})
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] != gpu:
                continue
            one, other = row["job_a"], row["job_b"]
            a, b = float(row["norm_a"]), float(row["norm_b"])
            pairs.speeds[one, other], pairs.speeds[other, one] = (a, b), (b, a)
            pairs.iterations_per_s[one] = float(row["iso_a_it_s"])
            pairs.iterations_per_s[other] = float(row["iso_b_it_s"])
    return pairs


def drawn(pairs: Pairs, seed: int) -> list[Job]:
    """The same for each GPU: kinds and lengths; iterations are as long as they are there."""
    chance = random.Random(seed)
    kinds = sorted(pairs.iterations_per_s)
    jobs = []
    for _ in range(JOBS):
        kind, length_s = chance.choice(kinds), chance.uniform(100, 1000)
        iteration_ms = round(1e3 / pairs.iterations_per_s[kind], 6)
        jobs.append(Job(kind, max(round(length_s * 1e3 / iteration_ms), 1), iteration_ms))
    return jobs


def known(jobs: list[Job], pairs: Pairs) -> float:
    """The makespan in seconds, of two lanes that know the speeds."""
    waiting = [(job.kind, job.length_s()) for job in jobs]
    running: list[tuple[str, float]] = []  # at most two, with what is left
    now = 0.0
    while waiting or running:
        while waiting and len(running) < 2:
            running.append(waiting.pop(0))
        if len(running) == 1:
            return now + running[0][1]
        speeds = pairs.speeds[running[0][0], running[1][0]]
        if sum(speeds) <= TOGETHER:
            speeds = (0.5, 0.5)
        step = min(left / speed for (_, left), speed in zip(running, speeds))
        now += step
        after = [(kind, left - step * speed) for (kind, left), speed in zip(running, speeds)]
        running = [one for one in after if one[1] > 1e-9]
    return now


def simulated(jobs: list[Job], pairs: Pairs) -> dict[str, float]:
    """The makespan in seconds of each variant."""
    with tempfile.TemporaryDirectory(prefix="laneway-pairs-") as name:
        folder = Path(name)
        trace, table = folder / "jobs.csv", folder / "pairs.csv"
        lines = [f"{job.kind},0,{job.iterations},{job.iteration_ms:.6f}" for job in jobs]
        header = "model_name,submit_time_s,iterations,iteration_ms"
        trace.write_text("\n".join([header, *lines]) + "\n")
        once = {tuple(sorted(kinds)) for kinds in pairs.speeds}
        lines = [f"{a},{b},{pairs.speeds[a, b][0]},{pairs.speeds[a, b][1]}" for a, b in once]
        table.write_text("\n".join(["job_a,job_b,norm_a,norm_b", *sorted(lines)]) + "\n")
        return {
            variant: simulate(trace, policy, "--pairs", str(table), *flags).summary["makespan_s"]
            for variant, (policy, flags) in VARIANTS.items()
        }
