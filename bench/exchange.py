"""exchange: are all models answered when pool and host store hold hardly more than their images?

Eight inference models of 20 to 54 MiB, 298 MiB together, are asked one after the other in orders
that are drawn from a seed: with a pool of 160 MiB and a store of 160 MiB, and with a store twice as
large, in turn. Where no room to change places would be left, a model is refused when it is offered:
those are counted, and closed with the larger store as well. Each answer is compared
with eager's, bit for bit, and none may take longer than a minute."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from typing import Any

import torch

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, interleaved, progress
from .report import Report, at_most
from .stats import median

POOL = "160MiB"
STORES = {"as_large": "160MiB", "twice": "320MiB"}
WIDTHS = (2000, 2500, 3000, 3500) * 2
ROUNDS = 30
QUICK_ROUNDS = 3
PATIENCE_S = 60.0


def cases() -> list[str]:
    return list(STORES)


def model(width: int) -> torch.nn.Module:
    layers = (torch.nn.Linear(512, width), torch.nn.Tanh(), torch.nn.Linear(width, width))
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(width, 8))


class Models:
    """Those that one service took, by their number."""

    def __init__(self, address: str, stack: ExitStack, models: list[Any], x: torch.Tensor) -> None:
        self.jobs: dict[int, Any] = {}
        service = stack.enter_context(laneway.connect(address))
        for number, one in enumerate(models):
            try:
                job = laneway.inference(one, service=service, name=f"m{number}")
                job(x)
            except laneway.Refused:
                continue
            self.jobs[number] = job

    def keep(self, numbers: list[int]) -> None:
        """Closes the others."""
        for number in self.jobs.keys() - set(numbers):
            self.jobs.pop(number).close()

    def ask(self, order: list[int], x: torch.Tensor, wants: list[torch.Tensor]) -> Answers:
        answers = Answers()
        for number in order:
            begin = time.perf_counter()
            try:
                got = self.jobs[number].submit(x).result(timeout=PATIENCE_S)
                answers.wrong += not torch.equal(got, wants[number])
            except TimeoutError:
                answers.without_end += 1
            answers.waits_s.append(time.perf_counter() - begin)
        return answers


class Answers:
    """Of one round."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.wrong = 0
        self.without_end = 0


def rate(rounds: list[Answers]) -> float:
    """Requests a second, of the median round."""
    return median([len(one.waits_s) / sum(one.waits_s) for one in rounds])


def run(options: Options) -> Report:
    report = Report("exchange")
    calibration = Calibration()
    torch.manual_seed(1)
    models = [model(width).eval() for width in WIDTHS]
    x = torch.randn(4, 512)
    with torch.no_grad():
        wants = [one(x).clone() for one in models]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        services = {}
        for name, store in STORES.items():
            words = ("--staging", store, "--standby", "0")
            daemon = stack.enter_context(Daemon(POOL, words=words))
            services[name] = Models(daemon.address, stack, models, x)
        refused = {name: len(models) - len(one.jobs) for name, one in services.items()}
        taken = sorted(set.intersection(*(set(one.jobs) for one in services.values())))
        for one in services.values():
            one.keep(taken)
        found = measure(services, taken, x, wants, options, calibration)
    for name, rounds in found.items():
        waits = [wait for one in rounds for wait in one.waits_s]
        report.add(name, "refused", float(refused[name]), "models")
        report.add(name, "wrong", float(sum(one.wrong for one in rounds)), "answers", at_most(0))
        endless = float(sum(one.without_end for one in rounds))
        report.add(name, "without_end", endless, "requests", at_most(0))
        report.add(name, "longest_wait_s", max(waits), "s")
        report.add(name, "requests_per_s", rate(rounds), "1/s", samples=waits)
    report.add("as_large", "over_twice", rate(found["as_large"]) / rate(found["twice"]), "")
    calibration.add_to(report)
    return report


def measure(
    services: dict[str, Models],
    taken: list[int],
    x: torch.Tensor,
    wants: list[torch.Tensor],
    options: Options,
    calibration: Calibration,
) -> dict[str, list[Answers]]:
    draw = random.Random(1)
    found: dict[str, list[Answers]] = {name: [] for name in services}
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    for number, names in enumerate(interleaved(list(services), rounds)):
        progress(f"exchange: round {number + 1}")
        calibration.sample()
        order = taken * 2
        draw.shuffle(order)
        for name in names:
            found[name].append(services[name].ask(order, x, wants))
    return found
