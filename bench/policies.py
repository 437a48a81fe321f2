"""policies: is each policy in short memory the server that its name promises, on any trace?

The core in virtual time (simulator/), in whole nanoseconds: a row is the same on every machine. A
hundred trainings in one lane, in 16 GiB less a reserve of 300 MiB, images at 12 GB/s, and a
millisecond from one turn to the next; against an ideal server that loses no time and knows no
memory (ideal_servers.py), as which the length of each job is all there is.

`salus`: traces/salus_shape_100.csv. `seed_N`: as many jobs drawn from the seed N in its shape.

`off_by` is how far the average job completion time is from the ideal server's, above or below; for
fair it is that of processor sharing, of which quanta of 60 s are 2.5 % above by themselves.
`makespan` is over the ideal server's. Each with `age=off` and with default options."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .harness import Options, progress
from .ideal_servers import Job, Outcome, read, serve, share
from .report import Report, at_least, at_most
from .simulate import TRACES, generate, simulate

SALUS = TRACES / "salus_shape_100.csv"
JOBS = 100
SEEDS = (1, 2, 3)
SHORT = ("--memory", "16GiB", "--reserve", "300MiB", "--copy-bandwidth", "12000000000")
SWITCH = ("--turn-gap", "0.001")
FAIR = "fair:quantum_s=60"
POLICIES = ("fifo", "sjf", "srtf", FAIR)
OFF_BY, OFF_BY_FAIR, OFF_BY_DEFAULTS = 0.01, 0.03, 0.05
MAKESPAN = 1.005
MOST_EVICTIONS = {"fifo": 100, FAIR: 2000}


def cases() -> list[str]:
    return ["salus", *(f"seed_{seed}" for seed in SEEDS)]


def run(options: Options) -> Report:
    report = Report("policies")
    if options.wants("salus"):
        measure("salus", SALUS, report)
    for seed in SEEDS:
        if not options.wants(f"seed_{seed}"):
            continue
        with tempfile.TemporaryDirectory(prefix="laneway-policies-") as folder:
            trace = Path(folder) / "jobs.csv"
            generate(JOBS, seed, trace)
            measure(f"seed_{seed}", trace, report)
    return report


def measure(case: str, trace: Path, report: Report) -> None:
    jobs = read(trace)
    for policy in POLICIES:
        ideal = served(jobs, policy)
        for text, off_by in (
            (f"{policy}:age=off", OFF_BY_FAIR if policy == FAIR else OFF_BY),
            (policy, OFF_BY_DEFAULTS),
        ):
            progress(f"policies: {case} {text}")
            found = simulate(trace, text, *SHORT, *SWITCH).summary
            against(case, text, found, ideal, off_by, report)
            evictions = found["evictions"]
            most = MOST_EVICTIONS.get(policy)
            target = at_most(most) if most and case == "salus" else None
            report.add(case, f"{text}/evictions", evictions, "images", target)
            if policy == FAIR:
                report.add(case, f"{text}/any_eviction", evictions, "images", at_least(1))


def served(jobs: list[Job], policy: str) -> Outcome:
    return share(jobs) if policy == FAIR else serve(jobs, policy)


def against(
    case: str, text: str, found: dict[str, float], ideal: Outcome, off_by: float, report: Report
) -> None:
    """Rows for the average completion time and the makespan; without values where jobs were
    refused, because the ideal server has them."""
    refused = found["refused"]
    average_s, makespan_s = found["average_jct_s"], found["makespan_s"]
    if refused:
        note = f"{refused} jobs were refused: the ideal server has them"
        report.add(case, f"{text}/off_by", None, "", at_most(off_by), note=note)
        report.add(case, f"{text}/makespan", None, "ratio", at_most(MAKESPAN), note=note)
        return
    note = f"{average_s:.3f} s, the ideal server {ideal.average_jct_s:.3f} s"
    off = abs(average_s / ideal.average_jct_s - 1)
    report.add(case, f"{text}/off_by", off, "", at_most(off_by), note=note)
    note = f"{makespan_s:.3f} s, the ideal server {ideal.makespan_s:.3f} s"
    ratio = makespan_s / ideal.makespan_s
    report.add(case, f"{text}/makespan", ratio, "ratio", at_most(MAKESPAN), note=note)
