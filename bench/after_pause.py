"""after_pause: what does an iteration on all threads take after a pause, beside plain PyTorch?

A training step whose iterations take some 3 ms is called synchronously, after a pause of 0 to
150 ms each time: one job of a lanewayd, and the same step in plain PyTorch in the client's process,
in blocks of 20 calls that alternate (A B B A). Threads of a team that was not used for some
milliseconds sleep, and where the kernel wakes them decides what the next iteration takes.
`of_eager`: the service's median over that of plain PyTorch; at most 1.1 is asked where there is a
pause long enough for threads to sleep (without one a call of 3 ms has the service's round trip
on top). `slowdown`: a median over the same one without pauses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import torch

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, interleaved, progress
from .one_lane import SIZE, Client, Multiply, product_s
from .report import Report, at_most
from .stats import median, percentile

PAUSES_S = {"none": 0.0, "20ms": 0.02, "50ms": 0.05, "150ms": 0.15}
ASLEEP = ("50ms", "150ms")
ITERATION_S = 0.005  # of one thread
VARIANTS = ("service", "eager")
BLOCK, ROUNDS, QUICK_ROUNDS = 20, 10, 2
SETTLE_S = 0.05  # until the other variant's threads sleep
WARM_UP = 5
MOST = 1.1

Samples = dict[str, dict[str, list[float]]]  # by pause and variant, in seconds


def cases() -> list[str]:
    return list(PAUSES_S)


def run(options: Options) -> Report:
    report = Report("after_pause")
    calibration = Calibration()
    product = product_s()
    torch.set_num_threads(os.cpu_count() or 1)
    found: Samples = {}
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("256MiB", words=("--standby", "0")))
        service = stack.enter_context(laneway.connect(daemon.address))
        calls = {
            "service": Client(service, "step", ITERATION_S, product).once,
            "eager": eager_step(product),
        }
        for case in filter(options.wants, cases()):
            progress(f"after_pause: {case}")
            calibration.sample()
            found[case] = measure(calls, PAUSES_S[case], QUICK_ROUNDS if options.quick else ROUNDS)
    add(found, report)
    calibration.add_to(report)
    return report


def eager_step(product: float) -> Callable[[], float]:
    """Seconds of the step that a Client has, in this process."""
    model = Multiply(max(1, round(ITERATION_S / product)))
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    x, y = torch.ones(SIZE, SIZE), torch.zeros(SIZE, SIZE)

    def once() -> float:
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        return time.perf_counter() - started

    return once


def measure(
    calls: dict[str, Callable[[], float]], pause_s: float, rounds: int
) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for order in interleaved(VARIANTS, rounds):
        for variant in order:
            time.sleep(SETTLE_S)
            for _ in range(WARM_UP):
                calls[variant]()
            for _ in range(BLOCK):
                time.sleep(pause_s)
                took[variant].append(calls[variant]())
    return took


def add(found: Samples, report: Report) -> None:
    for case, took in found.items():
        for variant, seconds in took.items():
            ms = [1e3 * one for one in seconds]
            report.add(case, f"{variant}_p50", median(ms), "ms", samples=ms)
            report.add(case, f"{variant}_p99", percentile(ms, 99), "ms")
            if "none" in found:
                without = median(found["none"][variant])
                report.add(case, f"slowdown_{variant}", median(seconds) / without, "ratio")
        ratio = median(took["service"]) / median(took["eager"])
        report.add(case, "of_eager", ratio, "ratio", at_most(MOST) if case in ASLEEP else None)
