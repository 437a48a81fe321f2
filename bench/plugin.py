"""plugin: do policies from outside of the tree order as they say, and what do they take?

The examples of plugin/examples/, in Python and in C++, as programs that laneway-simulate starts and
asks at each instant.

`ideal`: the 100 trainings of traces/salus_shape_100.csv in one lane without memory, against an
ideal server (ideal_servers.py), beside the built-in srtf: `off_by` is how far the average job
completion time is from that server's. `seconds` is what the run took on the clock of the wall,
start of the program included.

`short`: the same in 16 GiB less a reserve of 300 MiB, images at 12 GB/s.

`many`: rows 30000:40000 of the one-GPU jobs of Philly's trace (--traces) on 64 lanes, a job to a
lane: what a long run takes on the clock of the wall, with srtf beside it. Turns may last a day:
with those of a minute, the default, a job has about a hundred, and the program is asked after each
of them."""

from __future__ import annotations

import time
from pathlib import Path

from .harness import Options, find_program, progress
from .ideal_servers import read, serve
from .report import Report, at_most
from .simulate import TRACES, Simulated, simulate

ROOT = Path(__file__).resolve().parent.parent
SALUS = TRACES / "salus_shape_100.csv"
SHORT = ("--memory", "16GiB", "--reserve", "300MiB", "--copy-bandwidth", "12000000000")
EXAMPLES = ("latest_first", "shortest_job")
PHILLY = "philly_jobs.csv"
OFF_BY = 0.01


def cases() -> list[str]:
    return ["ideal", "short", "many"]


def run(options: Options) -> Report:
    report = Report("plugin")
    for case, flags in (("ideal", ()), ("short", SHORT)):
        if options.wants(case):
            salus(case, flags, report)
    if options.wants("many"):
        many(options.traces / PHILLY if options.traces else None, report)
    return report


def policies(name: str) -> dict[str, str]:
    """The example's policy texts by language."""
    compiled = find_program(f"policy_{name}", "plugin")
    return {
        "python": f"{ROOT}/plugin/examples/{name}.py:age=off",
        "c++": f"{compiled}:age=off",
    }


def salus(case: str, flags: tuple[str, ...], report: Report) -> None:
    jobs = read(SALUS)
    chosen = [("srtf", "built-in", "srtf:age=off")]
    chosen += [(name, *one) for name in EXAMPLES for one in policies(name).items()]
    for order, language, text in chosen:
        found, seconds = timed(case, SALUS, text, *flags)
        ideal_s = serve(jobs, order).average_jct_s
        found_s = found.summary["average_jct_s"]
        note = f"{found_s:.3f} s, the ideal server {ideal_s:.3f} s"
        off = abs(found_s / ideal_s - 1)
        report.add(case, f"{order}/{language}/off_by", off, "", at_most(OFF_BY), note=note)
        report.add(case, f"{order}/{language}/seconds", seconds, "s")


def many(trace: Path | None, report: Report) -> None:
    if trace is None or not trace.exists():
        note = f"{trace} is missing" if trace else f"--traces DIR: the folder of {PHILLY}"
        report.add("many", "latest_first/python/seconds", None, "s", note=note)
        return
    flags = ("--where", "num_gpus=1", "--rows", "30000:40000", "--lanes", "64")
    flags += ("--store", "1GiB", "--set", "longest_slice_s=86400")
    for name, language, text in (
        ("srtf", "built-in", "srtf:age=off:share=no"),
        ("latest_first", "python", policies("latest_first")["python"] + ":share=no"),
    ):
        found, seconds = timed("many", trace, text, *flags)
        note = f"{found.summary['jobs']} jobs, {found.summary['events']} events"
        report.add("many", f"{name}/{language}/seconds", seconds, "s", note=note)


def timed(case: str, trace: Path, policy: str, *flags: str) -> tuple[Simulated, float]:
    progress(f"plugin: {case} {policy}")
    began = time.monotonic()
    return simulate(trace, policy, *flags), time.monotonic() - began
