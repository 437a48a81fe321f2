"""starvation: does anybody wait for ever, under any policy?

One lane; a client that always has four iterations in flight, beside one that calls
synchronously, for 30 s with each policy and its default options. The first one came first, is
preferred by priority and deadline, and said how many iterations it wants; the other one said
nothing. `longest_wait_s` is the longest call of the second one, against a bound that is computed
before the run (policies/common_rules.h): age_s for each rival, then for each turn that may come
before it a quantum and the longest iteration, and its own iteration."""

from __future__ import annotations

import time
from contextlib import ExitStack

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, progress
from .one_lane import QUANTUM_S, Client, policies, product_s
from .report import Report, at_most
from .stats import median

AGE_S = 1.0  # policies/common_rules.h
RIVALS = 1
HOG_S = 0.012
VICTIM_S = 0.003
IN_FLIGHT = 4
RUN_S = 30.0
QUICK_RUN_S = 2.5


def cases() -> list[str]:
    return policies()


def bound(rivals: int, longest_s: float, own_s: float) -> float:
    """Seconds that a call takes at most."""
    return AGE_S * rivals + (rivals + 1) * (QUANTUM_S + longest_s) + own_s


def run(options: Options) -> Report:
    report = Report("starvation")
    calibration = Calibration()
    product = product_s()
    for policy in filter(options.wants, cases()):
        progress(f"starvation: {policy}")
        calibration.sample()
        measure(policy, QUICK_RUN_S if options.quick else RUN_S, product, report)
    calibration.add_to(report)
    return report


def measure(policy: str, run_s: float, product: float, report: Report) -> None:
    words = ("--standby", "0", "--lanes", "1", "--policy", policy)
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("512MiB", words=words))
        service = stack.enter_context(laneway.connect(daemon.address))
        preferred = {"priority": 5, "deadline": 3600, "total_iterations": 1_000_000}
        hog = Client(service, "hog", HOG_S, product, **preferred)
        victim = Client(service, "victim", VICTIM_S, product)
        # Both are captured and measured, alone.
        longest = max(hog.once() for _ in range(8)) if hog.once() else 0.0
        own = max(victim.once() for _ in range(8)) if victim.once() else 0.0
        limit = bound(RIVALS, longest, own)
        stack.callback(hog.end)
        hog.begin(IN_FLIGHT)
        waits = []
        end = time.perf_counter() + run_s
        while time.perf_counter() < end:
            waits.append(victim.once())
        report.add(policy, "longest_wait_s", max(waits), "s", at_most(limit), samples=waits)
        report.add(policy, "median_wait_ms", median(waits) * 1e3, "ms")
        report.add(policy, "calls", float(len(waits)), "calls")
