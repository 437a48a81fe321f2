"""neighbours: what do other jobs notice while images are copied into the pool?

A small training runs synchronously in its own lane. In every third window another job's image, of
256 MiB, is brought into the pool over and over (it leaves clean, which copies nothing); in others
nothing is copied. `slowdown_p99` is the p99 of a window with copies over that of the window without
of the same round. `unlimited`: as fast as the copying thread can; `1GBps`: over a link of that
rate. The image's user is a process of its own. With two cores both clients, the lane and the
copying thread share them: that is in the figure. In windows of a third kind, `elsewhere`, a process
that has nothing to do with the service copies such images over such a link: `over_elsewhere_p99` is
what the service has beyond what the machine does to a job beside which somebody copies."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import laneway

from . import stats
from .daemon import Daemon
from .eviction import MIB
from .failover import Jobs
from .harness import Calibration, Options, find_program, interleaved, progress
from .models import make, pool_for
from .report import ROOT, Report, at_most

SIZE = 256 * MIB
SMALL = "mlp"
RATES: dict[str, tuple[str, ...]] = {"unlimited": (), "1GBps": ("--copy-bandwidth", "1000000000")}
WINDOW_S = 2.0
QUICK_WINDOW_S = 0.5
FEWEST = 10_000  # iterations of each kind
WARM_UP = 200
P99 = at_most(1.1)


def cases() -> list[str]:
    return list(RATES)


def run(options: Options) -> Report:
    report = Report("neighbours")
    calibration = Calibration()
    for case in filter(options.wants, cases()):
        progress(f"neighbours: {case}")
        _measure(case, options, calibration, report)
    calibration.add_to(report)
    return report


def _measure(case: str, options: Options, calibration: Calibration, report: Report) -> None:
    window_s = QUICK_WINDOW_S if options.quick else WINDOW_S
    pool = 3 * SIZE + pool_for(make(SMALL))
    words = ("--standby", "0", "--staging", str(2 * SIZE), "--lanes", "2", *RATES[case])
    windows: dict[str, list[list[float]]] = {"without": [], "with": [], "elsewhere": []}
    copied = 0
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(pool, words=words))
        service = stack.enter_context(laneway.connect(daemon.address))
        copier = stack.enter_context(_copier(daemon.address))
        jobs = Jobs([SMALL], service)
        _window(jobs.train, WARM_UP * 1e-4)
        for order in interleaved(list(windows), options.trials):
            calibration.sample()
            for kind in order:
                if kind == "without":
                    windows[kind].append(_window(jobs.train, window_s))
                    continue
                if kind == "elsewhere":
                    with _copying_elsewhere(case):
                        windows[kind].append(_window(jobs.train, window_s))
                    continue
                _say(copier, "go")
                windows[kind].append(_window(jobs.train, window_s))
                _say(copier, "stop")
                copied += int(_line_of(copier))
    _report(case, windows, copied, report)


@contextmanager
def _copier(address: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"{__package__}.neighbours_probe", address, str(SIZE)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as copier:
        try:
            if _line_of(copier) != "ready":
                raise RuntimeError("the process that has images copied did not begin")
            yield copier
        finally:
            copier.kill()


def _say(copier: subprocess.Popen[str], word: str) -> None:
    assert copier.stdin is not None
    copier.stdin.write(f"{word}\n")
    copier.stdin.flush()


def _line_of(copier: subprocess.Popen[str]) -> str:
    assert copier.stdout is not None
    return copier.stdout.readline().strip()


def _window(iterate: Callable[[], None], seconds: float) -> list[float]:
    """Seconds of each iteration."""
    times = []
    end = time.perf_counter() + seconds
    now = time.perf_counter()
    while now < end:
        before = now
        iterate()
        now = time.perf_counter()
        times.append(now - before)
    return times


@contextmanager
def _copying_elsewhere(case: str) -> Iterator[None]:
    rate = RATES[case][1] if RATES[case] else "0"
    command = [str(find_program("laneway-link-rate")), str(SIZE), rate, "1", "forever", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as copier:
        assert copier.stdout is not None
        try:
            if copier.stdout.readline() != "ready\n":
                raise RuntimeError(f"{command[0]} copies nothing")
            yield
        finally:
            copier.kill()


def _report(case: str, windows: dict[str, list[list[float]]], copied: int, report: Report) -> None:
    p99 = {kind: [stats.percentile(one, 99) * 1e6 for one in windows[kind]] for kind in windows}
    slower = [beside / alone for beside, alone in zip(p99["with"], p99["without"], strict=True)]
    interval = stats.bootstrap_median(slower)
    fewest = min(sum(len(one) for one in each) for each in windows.values())
    note = None if fewest >= FEWEST else f"only {fewest} iterations of a kind"
    report.add(case, "slowdown_p99", interval.high, "ratio", P99, samples=slower, note=note,
               median=interval.median, low=interval.low)  # fmt: skip
    beyond = [ours / theirs for ours, theirs in zip(p99["with"], p99["elsewhere"], strict=True)]
    over = stats.bootstrap_median(beyond)
    report.add(case, "over_elsewhere_p99", over.high, "ratio", samples=beyond,
               median=over.median, low=over.low)  # fmt: skip
    for kind, values in p99.items():
        report.add(case, f"p99_{kind}_copies_us", stats.median(values), "us", samples=values)
        medians = [stats.median(one) * 1e6 for one in windows[kind]]
        report.add(case, f"median_{kind}_copies_us", stats.median(medians), "us", samples=medians)
    report.add(case, "images_copied", float(copied), "images", note=f"of {SIZE // MIB} MiB")
    report.add(case, "iterations_of_a_kind", float(fewest), "iterations")
