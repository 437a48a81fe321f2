"""service on a device: what does a synchronous iteration through lanewayd take more than the same
one embedded? Interleaved trials; the difference is taken round by round. It has no target: what
bounds it stands beside it, the time in which this machine hands a message to another process and
back (laneway-ring-roundtrip), blocking."""

from __future__ import annotations

from .. import stats
from ..harness import find_program
from ..round_trips import RoundTrips
from .section import Section
from .trials import compare_medians, ready

CASES = ("mlp", "gpt")
ROUND_TRIPS = 1_000
ANYWHERE = -1  # the core of a process that may run on any


def cases() -> list[str]:
    return list(CASES)


def run(section: Section, only: tuple[str, ...] = (), trials: int = 15) -> None:
    with section.attempt("machine", "round_trip_us", "us"):
        _round_trip(section)
    wanted = [case for case in CASES if not only or case in only]
    for index, case in enumerate(wanted):
        if section.settings.quick and not only and index:
            section.leave_out(f"{case}: not with --quick")
            continue
        seconds = section.left() / (len(wanted) - index)
        if section.fits(5 if section.settings.cuda else 0, case):
            _measure(section, case, 3 if section.settings.quick else trials, seconds)


def _round_trip(section: Section) -> None:
    """What any message to another process and its answer take here."""
    program = [str(find_program("laneway-ring-roundtrip")), str(ANYWHERE), str(ANYWHERE)]
    with RoundTrips(program) as ring:
        ring.trial(ROUND_TRIPS)  # warm
        samples = [nanoseconds / 1e3 for nanoseconds in ring.trial(ROUND_TRIPS)]
    section.add("machine", "round_trip_us", stats.median(samples), "us")
    section.add("machine", "round_trip_p99_us", stats.percentile(samples, 99), "us")


def _measure(section: Section, case: str, rounds: int, seconds: float) -> None:
    metric, before = "added_us", section.left()
    with ready(section, case, ("embedded", "service"), max(10.0, seconds)) as trials:
        if trials.failed:
            why = "; ".join(f"{name}: {text}" for name, text in trials.failed.items())
            section.add(case, metric, None, "us", note=why)
            return
        trial_s = 0.02 if section.settings.quick else 0.15
        trials.run(section, rounds, trial_s, max(1.0, seconds - (before - section.left())))
        trials.report(section, case)
        added = compare_medians(trials, "service", "embedded")
        interval = stats.bootstrap_median(added)
        bounds = [r["value"] for r in section.rows if r["metric"] == "round_trip_us" and r["value"]]
        if bounds:
            ratio = interval.median / bounds[0]
            section.add(case, "added_over_round_trip", ratio, "ratio", note="median over median")
        note = f"upper end of 95 %; median {interval.median:.1f}"
        more = {"median": interval.median, "low": interval.low}
        section.add(case, metric, interval.high, "us", samples=added, note=note, **more)
