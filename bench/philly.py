"""philly: does the core serve tens of thousands of real jobs as ideal servers would?

The one-GPU jobs of Microsoft's Philly trace (Jeon et al., USENIX ATC 2019), in the core in virtual
time (simulator/): 64 equal lanes, memory does not constrain, copies take no time, `age=off`. A file
philly_jobs.csv in the folder that `--traces` names, with the columns timestamp, duration, num_gpus;
without it rows are null.

`job_a_lane`: rows 30000:40000 by submission, a job to a lane (`share=no`), so that each lane is one
server of 64 that take from one queue. `shared`: the same rows in lanes that jobs share. `all`: all
jobs, a job to a lane, and turns of up to a day: the usual ones of up to a minute are twelve million
for these jobs.

`off_by` is how far the average job completion time is from that of 64 ideal servers
(ideal_servers.py), above or below; `seconds` what the run took of the processor's time, start of
the program and its reading of the file included: that does not depend on what else runs."""

from __future__ import annotations

import csv
import datetime
import resource
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from .harness import Options, progress
from .ideal_servers import Job, serve, share
from .report import Report, at_most
from .simulate import simulate

FILE = "philly_jobs.csv"
LANES = 64
FLAGS = ("--where", "num_gpus=1", "--lanes", str(LANES))
# Who is overtaken with a job to a lane needs a place to go to.
PREEMPTIVE = ("srtf",)
STORE = ("--store", "1GiB")
LONG_TURNS = ("--set", "longest_slice_s=86400")
SOME = (30_000, 40_000)
FAIR = "fair:quantum_s=60"
SECONDS = 10


@dataclass(frozen=True)
class Case:
    policies: tuple[str, ...]
    options: str
    off_by: float
    rows: tuple[int, int] | None = None  # none: all
    seconds: float | None = None  # that a run may take
    flags: tuple[str, ...] = ()


CASES = {
    "job_a_lane": Case(("fifo", "sjf", "srtf"), ":age=off:share=no", 0.001, SOME),
    "shared": Case(("sjf", "srtf", FAIR), ":age=off", 0.01, SOME),
    "all": Case(("fifo", "sjf", "srtf"), ":age=off:share=no", 0.001, None, SECONDS, LONG_TURNS),
}


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("philly")
    trace = options.traces / FILE if options.traces else None
    for name, case in CASES.items():
        if not options.wants(name):
            continue
        if trace is None or not trace.exists():
            note = f"{trace} is missing" if trace else f"--traces DIR: the folder of {FILE}"
            for policy in case.policies:
                text = policy + case.options
                report.add(name, f"{text}/off_by", None, "", at_most(case.off_by), note=note)
            continue
        measure(name, case, trace, report)
    return report


def measure(name: str, case: Case, trace: Path, report: Report) -> None:
    jobs = read(trace)
    flags = FLAGS + case.flags
    if case.rows:
        first, last = case.rows
        jobs = jobs[first:last]
        flags += ("--rows", f"{first}:{last}")
    for policy in case.policies:
        text = policy + case.options
        progress(f"philly: {name} {text}")
        ideal = share(jobs, LANES) if policy == FAIR else serve(jobs, policy, LANES)
        before_s = processor_s()
        store = STORE if policy in PREEMPTIVE else ()
        found = simulate(trace, text, *flags, *store).summary
        seconds = processor_s() - before_s
        average_s = found["average_jct_s"]
        note = f"{average_s:.3f} s, {LANES} ideal servers {ideal.average_jct_s:.3f} s"
        off = abs(average_s / ideal.average_jct_s - 1)
        report.add(name, f"{text}/off_by", off, "", at_most(case.off_by), note=note)
        note = f"{found['jobs']} jobs, {found['events']} events"
        target = at_most(case.seconds) if case.seconds else None
        report.add(name, f"{text}/seconds", seconds, "s", target, note=note)


def processor_s() -> float:
    """Of all programs that this process started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(path: Path) -> list[Job]:
    """The jobs of one GPU, by submission, those of one second in the file's order."""
    jobs = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["num_gpus"] != "1":
                continue
            at = datetime.datetime.fromisoformat(row["timestamp"]).replace(tzinfo=datetime.UTC)
            submit_ns = int(at.timestamp()) * 10**9
            jobs.append(Job(submit_ns, int(Decimal(row["duration"]) * 10**9)))
    return sorted(jobs, key=lambda job: job.submit_ns)
