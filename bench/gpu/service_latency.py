"""service on a device: what does a synchronous iteration through lanewayd take more than the same
one embedded? Interleaved trials; the difference is taken round by round."""

from __future__ import annotations

from .. import stats
from ..report import at_most
from .section import Section
from .trials import compare_medians, ready

CASES = ("mlp", "gpt")
ADDED_US = at_most(50)


def cases() -> list[str]:
    return list(CASES)


def run(section: Section, only: tuple[str, ...] = (), trials: int = 15) -> None:
    wanted = [case for case in CASES if not only or case in only]
    for index, case in enumerate(wanted):
        if section.settings.quick and not only and index:
            section.leave_out(f"{case}: not with --quick")
            continue
        seconds = section.left() / (len(wanted) - index)
        if section.fits(5 if section.settings.cuda else 0, case):
            _measure(section, case, 3 if section.settings.quick else trials, seconds)


def _measure(section: Section, case: str, rounds: int, seconds: float) -> None:
    metric, before = "added_us", section.left()
    with ready(section, case, ("embedded", "service"), max(10.0, seconds)) as trials:
        if trials.failed:
            why = "; ".join(f"{name}: {text}" for name, text in trials.failed.items())
            section.add(case, metric, None, "us", ADDED_US, note=why)
            return
        trial_s = 0.02 if section.settings.quick else 0.15
        trials.run(section, rounds, trial_s, max(1.0, seconds - (before - section.left())))
        trials.report(section, case)
        added = compare_medians(trials, "service", "embedded")
        interval = stats.bootstrap_median(added)
        note = f"upper end of 95 %; median {interval.median:.1f}"
        more = {"median": interval.median, "low": interval.low}
        section.add(case, metric, interval.high, "us", ADDED_US, samples=added, note=note, **more)
