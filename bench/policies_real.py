"""policies_real: does the order of policies that the simulator finds hold in a service?

The 100 trainings of traces/salus_shape_100.csv, 150 times faster, as trainings of lstm, cnn, gpt,
mobilenet_v3_small and resnet18 (row mod 5; two minutes of work), each captured before and offered
when it arrives: real_jobs.py. Cases: one lane and two, a pool for all images and for a third of
them; three seeds (weights, batches, draws), each three times (`--trials N`: the first N of these
nine). The machine is calibrated first (`laneway calibrate`), and the same jobs are simulated from
that before any of them runs. Each run is kept (real_runs.py): the bench may be interrupted, and the
bench fidelity reports on the same runs.

`states_that_differ`: states in the end against eager PyTorch's, bit for bit; `iterations_missing`
of the declared. `ranking_as_simulated`: whether average job completion times put the policies in
the simulated order, policies within 5 % of each other in any. `fifo_over_srtf_of_simulated`: the
ratio of their average JCT over the simulated ratio. `makespan_of_plain`: in two lanes, fifo's over
the best of plain PyTorch (`plain`): one by one with 1 and with 2 threads, two at a time, all at
once, each in a process that was there before. What is compared is null where repeats differ by
more than 5 %, and where there is but one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from .harness import Calibration, Options
from .real_jobs import Job, Ran, load, spread
from .real_runs import CASES, PLAIN, POLICIES, STATES_OF, Predicted, cases_of, runs_of
from .report import Report, at_least, at_most

SPREAD = 0.05
NEAR = 0.05
RATIO = at_least(0.9)
# Of a case under a policy: seeds and runs.
Live = dict[str, list[tuple[int, Ran]]]


def cases() -> list[str]:
    return [*CASES, "plain"]


def run(options: Options) -> Report:
    report = Report("policies_real")
    runs = runs_of("policies_real", options, plain=True)
    plain = runs.plain()
    for case in cases_of(options):
        add(case, runs.live(case), runs.predicted, plain, report)
    add_plain(plain, report)
    Calibration(runs.loops_ms()).add_to(report)
    return report


def averages(runs: Sequence[tuple[int, Ran]]) -> list[float]:
    return [mean(run.jct_s) for _, run in runs]


def makespans(runs: Sequence[tuple[int, Ran]]) -> list[float]:
    return [run.makespan_s for _, run in runs]


def unsteady(*samples: Sequence[float]) -> str | None:
    """Why what these say is not compared; None: they are steady."""
    if min(map(len, samples)) < 2:
        return "a single run does not say how far repeats differ: --trials 2 or more"
    worst = max(spread(values) for values in samples)
    return f"repeats differ by {worst:.0%}, {load()}" if worst > SPREAD else None


def add(
    case: str,
    found: Live,
    predicted: Predicted,
    plain: dict[str, dict[int, Ran]],
    report: Report,
) -> None:
    for policy, runs in found.items():
        samples = averages(runs)
        report.add(case, f"{policy}/average_jct_s", median(samples), "s", samples=samples)
        samples = makespans(runs)
        report.add(case, f"{policy}/makespan_s", median(samples), "s", samples=samples)
    eager = {seed: run.states for seed, run in plain[STATES_OF].items()}
    report.add(case, "states_that_differ", float(differing(found, eager)), "jobs", at_most(0.0))
    report.add(
        case, "iterations_missing", float(missing(found, predicted.jobs)), "iterations",
        at_most(0.0),
    )  # fmt: skip
    live = {policy: median(averages(runs)) for policy, runs in found.items()}
    simulated = {policy: one["average_jct_s"] for policy, one in predicted.summaries[case].items()}
    why = unsteady(*(averages(runs) for runs in found.values()))
    same = None if why else float(is_ranked_as(live, simulated))
    report.add(case, "ranking_as_simulated", same, "bool", at_least(1.0), note=why)
    fifo, srtf = "fifo:age=off", "srtf:age=off"
    ratio = (live[fifo] / live[srtf]) / (simulated[fifo] / simulated[srtf])
    report.add(
        case, "fifo_over_srtf_of_simulated", None if why else ratio, "ratio", RATIO, note=why
    )
    if CASES[case].lanes == 2:
        add_of_plain(case, makespans(found[POLICIES[0]]), plain, report)


def add_of_plain(
    case: str, ours: list[float], plain: dict[str, dict[int, Ran]], report: Report
) -> None:
    if len(plain) < len(PLAIN):
        why = "plain PyTorch did not run in every way: --only plain too"
    else:
        best = min(plain, key=lambda name: median(plain_makespans(plain[name])))
        theirs = plain_makespans(plain[best])
        why = unsteady(ours, theirs)
    of_plain = None if why else median(ours) / median(theirs)
    note = why or f"best: {best}"
    report.add(case, "makespan_of_plain", of_plain, "ratio", at_most(1.0), note=note)


def plain_makespans(runs: dict[int, Ran]) -> list[float]:
    return [run.makespan_s for run in runs.values()]


def add_plain(plain: dict[str, dict[int, Ran]], report: Report) -> None:
    for name, runs in plain.items():
        samples = plain_makespans(runs)
        report.add("plain", f"{name}/makespan_s", median(samples), "s", samples=samples)


def differing(found: Live, eager: dict[int, list[str]]) -> int:
    """States of jobs of all runs that are not those of plain PyTorch with the same seed."""
    return sum(
        mine != theirs
        for runs in found.values()
        for seed, run in runs
        for mine, theirs in zip(run.states, eager[seed], strict=True)
    )


def missing(found: Live, jobs: Sequence[Job]) -> int:
    return sum(
        abs(job.iterations - done)
        for runs in found.values()
        for _, run in runs
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
