"""scheduler: how many events a second does the core handle, and how long does one take?

laneway-scheduler-load drives the real core with 1,000 jobs on 64 lanes, in virtual time. `steady`
makes every event force a choice among about 16 ready jobs; in `mix` jobs of all lengths come,
pause, finish and are cancelled; `fifo` is the same under another policy; in `crowded` 300 of the
images are outside of the pool, and they leave and come back all the time. The program checks first
that the load is one (choices, jobs, the policy's order) and that timed runs grant the same turns.
Throughput has the load's own work in it; a clock stands around every call for the latencies. What
has `own` in its name is of the thread's own CPU time: others on the machine do not lengthen it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from . import stats
from .harness import Options, find_program, progress
from .report import Report, Target, at_least, at_most

EVENTS = 1_000_000
QUICK_EVENTS = 100_000
# A wake-up of about 100 us is before each call.
RATE = at_least(200_000)
P99 = at_most(25)
# An image that leaves costs megabytes of copies, too.
CROWDED_P99 = at_most(50)
LONGEST = at_most(1_000)
CASES = {
    "steady": ("steady", "srtf"),
    "mix": ("mix", "srtf"),
    "fifo": ("mix", "fifo"),
    "crowded": ("crowded", "srtf"),
}


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("scheduler")
    loop_ms: list[float] = []
    for case, (load, policy) in CASES.items():
        if not options.wants(case):
            continue
        progress(f"scheduler: {case}")
        events = QUICK_EVENTS if options.quick else EVENTS
        try:
            found = drive(load, policy, events, options.trials)
        except (OSError, RuntimeError) as error:
            report.add(case, "events_per_s", None, "1/s", RATE, note=str(error))
            report.add(case, "handle_p99_us", None, "us", _p99(case), note=str(error))
            continue
        loop_ms += found["loop_ms"]
        _report(case, found, report)
    if loop_ms:
        report.add("calibration", "loop_ms", stats.median(loop_ms), "ms", samples=loop_ms)
    return report


def _p99(case: str) -> Target:
    return CROWDED_P99 if case == "crowded" else P99


def drive(load: str, policy: str, events: int, trials: int) -> dict[str, Any]:
    """What laneway-scheduler-load prints. RuntimeError with its reason when it refuses."""
    command = [str(find_program("laneway-scheduler-load")), load, policy, str(events), str(trials)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout)


def _report(case: str, found: dict[str, Any], report: Report) -> None:
    note = (
        f"{found['choices']} choices in {found['events']} events, of {found['mean_candidates']:.1f}"
        f" jobs each, {found['distinct_jobs']} jobs had a turn"
    )
    if found["departures"]:
        note += f", {found['arrivals']} came and {found['departures']} went"
    if found["evictions"]:
        note += f", {found['evictions']} images left and {found['returns']} came back"
    note += "" if found["optimized"] else "; the program was built without optimisation"
    rates = found["events_per_s"]
    report.add(case, "events_per_s", stats.median(rates), "1/s", RATE, samples=rates, note=note)
    p99 = found["handle_p99_us"]
    report.add(case, "handle_p99_us", stats.median(p99), "us", _p99(case), samples=p99)
    for metric, at in (("handle_p50_us", stats.median), ("handle_max_us", max)):
        report.add(case, metric, at(found[metric]), "us", samples=found[metric])
    own = found["handle_max_own_us"]
    report.add(case, "handle_max_own_us", max(own), "us", LONGEST, samples=own)
    own = found["events_per_own_s"]
    report.add(case, "events_per_own_s", stats.median(own), "1/s", samples=own)
