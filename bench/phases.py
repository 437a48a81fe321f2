"""phases: two trainings whose clients work on the host between their steps, in a pool for one and a
half of them.

Two equal trainings of 192 MiB each (weights and momentum) do a number of steps, with 5, 50, 500 ms
or 5 s of work on the host (a sleep) behind each; copies at 500 MiB/s. How long both take together,
over one after the other by the same service. With short phases they must not take turns by copies;
with long ones each computes while the other one's client works. The core in virtual time has the
same in order."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import laneway

from .daemon import Daemon
from .harness import Calibration, Options, interleaved, progress
from .report import Report, at_most
from .stats import median

WIDTH = 5016  # 96 MiB of weights
BATCH = 16
BANDWIDTH = "500MiB"
# By milliseconds of work on the host: how many steps, and at most so much of one after the other.
PHASES = {5: (60, 1.06), 50: (50, 1.06), 500: (25, 1.06), 5000: (8, 0.85)}
QUICK_STEPS = 4
ROUNDS = 3


def cases() -> list[str]:
    return [f"{gap_ms}_ms" for gap_ms in PHASES]


@dataclass
class Training:
    step: Any
    x: torch.Tensor

    def run(self, steps: int, gap_s: float) -> None:
        for _ in range(steps):
            self.step(self.x, self.x)
            time.sleep(gap_s)


def training(service: Any, name: str) -> Training:
    torch.manual_seed(1)
    model = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loss = torch.nn.functional.mse_loss
    step = laneway.train_step(model, loss, optimizer, service=service, name=name, sync="manual")
    one = Training(step, torch.randn(BATCH, WIDTH))
    one.run(3, 0)  # capture, and the first turns
    return one


def together(trainings: list[Training], steps: int, gap_s: float) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(trainings)) as threads:
        for done in [threads.submit(one.run, steps, gap_s) for one in trainings]:
            done.result()
    return time.perf_counter() - begin


def in_turn(trainings: list[Training], steps: int, gap_s: float) -> float:
    begin = time.perf_counter()
    for one in trainings:
        one.run(steps, gap_s)
    return time.perf_counter() - begin


MEASURES = {"in_turn": in_turn, "together": together}


def differing(trainings: list[Training]) -> int:
    """Of the two, which begin alike and do the same steps: weights and momenta that differ."""
    one, other = (pytree.tree_leaves(each.step.state_dict()) for each in trainings)
    return sum(isinstance(a, torch.Tensor) and not torch.equal(a, b) for a, b in zip(one, other))


def size_of_one() -> int:
    """Bytes of image and region."""
    with Daemon("1GiB") as daemon, laneway.connect(daemon.address) as service:
        training(service, "alone")
        line = service.status()["jobs"][0]
        return line["persistent_bytes"] + line["ephemeral_bytes"]


def run(options: Options) -> Report:
    report = Report("phases")
    calibration = Calibration()
    pool = size_of_one() * 3 // 2
    words = ("--staging", "512MiB", "--standby", "0", "--copy-bandwidth", BANDWIDTH)
    with Daemon(pool, words=words) as daemon, laneway.connect(daemon.address) as service:
        trainings = [training(service, f"t{number}") for number in range(2)]
        for gap_ms, (steps, most) in PHASES.items():
            case = f"{gap_ms}_ms"
            if not options.wants(case):
                continue
            steps = QUICK_STEPS if options.quick else steps
            found: dict[str, list[float]] = {name: [] for name in MEASURES}
            rounds = 1 if options.quick or gap_ms == 5000 else ROUNDS
            for number, names in enumerate(interleaved(list(MEASURES), rounds)):
                progress(f"phases: {case}, round {number + 1}")
                calibration.sample()
                for name in names:
                    found[name].append(MEASURES[name](trainings, steps, gap_ms / 1000))
            ratios = [a / b for a, b in zip(found["together"], found["in_turn"], strict=True)]
            report.add(case, "over_in_turn", median(ratios), "", at_most(most), samples=ratios)
            report.add(case, "differing", float(differing(trainings)), "tensors", at_most(0))
    calibration.add_to(report)
    return report
