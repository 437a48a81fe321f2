"""order: does the core serve in the order that its policy names, when memory is short?

The core in virtual time (simulator/), in whole nanoseconds: a row is the same on every machine.

`two`: two equal jobs of 100 s come a second apart to a pool for one of them. By every policy that
ranks equal jobs by arrival the first one ends at 100 s and the second at 200 s, with default
options and with `age=off`; fair gives each a quantum of 10 s in turn, so whole quanta end at 190
and 200 s.

`phases`: two equal trainings whose clients work on the host for 5, 50, 500 ms or 5 s between two
steps, in a pool for one and a half of them, copies at 500 MiB/s: how long both take together over
one after the other. With short phases they must not take turns; with long ones they may.

`lanes`: the 100 trainings of traces/salus_shape_100.csv in 2, 4 and 8 lanes that they share,
without memory, against as many ideal servers that take from one queue (ideal_servers.py): `off_by`
is how far the average job completion time is from theirs, above or below. The order is one over all
lanes. Who did no two iterations yet gets them at once, which the ideal servers need not do. The
bench policies has the same trainings in one lane whose memory is short.

`unlimited`: the same without memory and with a job to a lane, which is that server up to what an
iteration takes: if these rows miss, the simulator is wrong, and not the policy."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .harness import Options, progress
from .ideal_servers import read, serve
from .report import Report, at_least, at_most
from .simulate import TRACES, Simulated, simulate

SALUS = TRACES / "salus_shape_100.csv"
IN_TURN = ("fifo", "sjf", "srtf", "priority", "edf", "las")
BY_QUANTUM = "fair:quantum_s=10"
TWO = """job_id,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb
first,0,1000,100,400,100
second,1,1000,100,400,100
"""
# By milliseconds of work on the host between two steps: at most so much of one after the other.
PHASES = {5: 1.06, 50: 1.06, 500: 1.06, 5000: 0.85}
PHASES_MEMORY = ("--memory", "348MiB", "--copy-bandwidth", "524288000")
PHASES_STEP_MS = 100
TWO_MEMORY = ("--memory", "768MiB", "--copy-bandwidth", "12000000000")


def cases() -> list[str]:
    return ["two", "phases", "lanes", "unlimited"]


def run(options: Options) -> Report:
    report = Report("order")
    measures = {
        "two": two,
        "phases": phases,
        "lanes": lanes,
        "unlimited": unlimited,
    }
    for case, measure in measures.items():
        if options.wants(case):
            measure(report)
    return report


def two(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="laneway-order-") as folder:
        trace = Path(folder) / "two.csv"
        trace.write_text(TWO)
        for name in IN_TURN:
            for policy in (name, f"{name}:age=off"):
                found = _simulated("two", trace, policy, TWO_MEMORY)
                first, second = sorted(found.ends_s())
                report.add("two", f"{policy}/first_end_s", first, "s", at_most(100 * 1.01))
                report.add("two", f"{policy}/second_end_s", second, "s", at_most(200 * 1.01))
                _count_evictions("two", policy, found, 2, report)
        found = _simulated("two", trace, BY_QUANTUM, TWO_MEMORY)
        first, second = sorted(found.ends_s())
        report.add("two", f"{BY_QUANTUM}/first_end_s", first, "s", at_least(188))
        report.add("two", f"{BY_QUANTUM}/second_end_s", second, "s", at_most(206))
        _count_evictions("two", BY_QUANTUM, found, 25, report)


def phases(report: Report) -> None:
    for gap_ms, most in PHASES.items():
        steps = max(20, 60_000 // (PHASES_STEP_MS + gap_ms))
        lines = [
            "job_id,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb,host_gap_ms"
        ]
        lines += [f"{i},{i},{steps},{PHASES_STEP_MS},192,40,{gap_ms}" for i in range(2)]
        with tempfile.TemporaryDirectory(prefix="laneway-order-") as folder:
            trace = Path(folder) / "phases.csv"
            trace.write_text("\n".join([*lines, ""]))
            found = _simulated("phases", trace, "fifo", PHASES_MEMORY)
        serial_s = 2 * steps * (PHASES_STEP_MS + gap_ms) / 1000
        ratio = found.summary["makespan_s"] / serial_s
        evictions = found.summary["evictions"]
        note = f"{evictions} images left"
        report.add("phases", f"{gap_ms}_ms/over_serial", ratio, "", at_most(most), note=note)


def lanes(report: Report) -> None:
    for count in (2, 4, 8):
        for order, off_by in (("fifo", 1e-9), ("sjf", 0.03), ("srtf", 0.02)):
            policy = f"{order}:age=off"
            found = _simulated("lanes", SALUS, policy, ("--lanes", str(count)))
            _against_ideal("lanes", order, policy, found, off_by, report, count)


def unlimited(report: Report) -> None:
    # srtf ends the iteration that runs before another job begins: half of one, now and then. Who is
    # overtaken needs a place to go to.
    for order, off_by, flags in (
        ("fifo", 1e-9, ()),
        ("sjf", 1e-9, ()),
        ("srtf", 1e-4, ("--store", "100GiB")),
    ):
        policy = f"{order}:share=no:age=off"
        found = _simulated("unlimited", SALUS, policy, flags)
        _against_ideal("unlimited", order, policy, found, off_by, report)


def _simulated(case: str, trace: Path, policy: str, flags: tuple[str, ...]) -> Simulated:
    progress(f"order: {case} {policy}")
    return simulate(trace, policy, *flags)


def _against_ideal(
    case: str,
    order: str,
    policy: str,
    found: Simulated,
    off_by: float,
    report: Report,
    servers: int = 1,
) -> None:
    ideal_s = serve(read(SALUS), order, servers).average_jct_s
    found_s = found.summary["average_jct_s"]
    refused = found.summary["refused"]
    ideal = "the ideal server" if servers == 1 else f"{servers} ideal servers"
    note = f"{found_s:.3f} s, {ideal} {ideal_s:.3f} s"
    note += f"; {refused} jobs were refused" if refused else ""
    off = abs(found_s / ideal_s - 1) if not refused else None
    name = policy if servers == 1 else f"{servers}/{policy}"
    report.add(case, f"{name}/off_by", off, "", at_most(off_by), note=note)


def _count_evictions(case: str, policy: str, found: Simulated, most: int, report: Report) -> None:
    evictions = found.summary["evictions"]
    report.add(case, f"{policy}/evictions", evictions, "images", at_most(most))
