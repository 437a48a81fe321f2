"""crowd: do jobs whose images together are several times the pool keep every bit, and is nothing
left of them?

Fifty different models, ten of them trainings with Adam, dropout and batch norm, are called in
random order through a lanewayd whose pool holds a fifth of their bytes; the host store has room for
three tenths, a spill file for all. Every answer of an inference is compared with eager's; losses,
states and twenty further iterations of each training with those of a service that has room for all.
The trace of the core counts evictions and where they went, those of the baseline among them.
`fifty` has 2,000 evictions at least, `switches` 10,000: a switch is an image that comes into the
pool. Crowds of the same jobs come and go before, until three in a row leave the processes with the
same memory (a note says if none did): what the service, its processes and its tiers hold then is
what they may hold in the end. The crowd that is measured makes ten times as many calls as one of
those, or forty times: what each call leaves shows. There are as many lanes as every crowd uses: a
worker keeps about a megabyte for good where a further lane is used for the first time, and how many
of 64 lanes are ever open at once is chance."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import laneway

from .baseline import anonymous_bytes, report_against, resources
from .crowd_models import batch, image_bytes, make_model
from .daemon import Daemon, children_of, daemon_program
from .harness import Options, progress
from .report import Report, at_least, at_most
from .state import first_difference, training_state

MEMORY = "children_memory_bytes"
JOBS, TRAININGS = 50, 10
LANES = 4
QUICK_JOBS, QUICK_TRAININGS = 20, 4
LEAST = {"fifty": 2_000, "switches": 10_000}  # evictions, and switches
QUICK_LEAST = {"fifty": 100, "switches": 200}
CALLS_A_SWITCH = 1.5  # more than is needed: a fifth of the calls find their image in the pool
BASELINES, MOST_BASELINES = 3, 20  # crowds
CALLS_OF_BASELINE = 8  # of each job
SETTLED = 0.003  # of the processes' memory, over three crowds
FURTHER = 20  # iterations of each job, when all the others were
OF_POOL = 0.2
OF_STORE = 0.3
MIB = 1 << 20
SEED = 11
LEAVING = re.compile(r"decided EvictImage .* of the (store|spill)")
COMING = re.compile(r"decided PlaceImage")
FAILED = re.compile(r"heard CopyFailed")


def cases() -> list[str]:
    return list(LEAST)


def run(options: Options) -> Report:
    report = Report("crowd")
    for case in filter(options.wants, cases()):
        _measure(case, options.quick, report)
    return report


class Crowd:
    """The jobs; a name's number is its model's."""

    def __init__(self, service: Any, count: int, trainings: int) -> None:
        self.count, self.trainings = count, trainings
        self.losses: dict[int, list[float]] = {number: [] for number in range(trainings)}
        self.wrong = 0
        self._calls: Counter[int] = Counter()
        self._steps = {number: self._step(service, number) for number in range(count)}
        self._plain = {number: make_model(number, False) for number in range(trainings, count)}

    def _step(self, service: Any, number: int) -> Any:
        name = f"crowd-{number}"
        if number >= self.trainings:
            return laneway.inference(make_model(number, False), service=service, name=name)
        model = make_model(number, True)
        torch.manual_seed(SEED + number)  # of the job's own generator
        return laneway.train_step(
            model,
            torch.nn.functional.cross_entropy,
            torch.optim.Adam(model.parameters(), 1e-3),
            service=service,
            name=name,
            random="own",
            sync="manual",
        )

    def call(self, number: int) -> None:
        inputs, labels = batch(number, self._calls[number])
        self._calls[number] += 1
        if number < self.trainings:
            self.losses[number].append(self._steps[number](inputs, labels).item())
            return
        with torch.no_grad():
            expected = self._plain[number](inputs)
        self.wrong += not torch.equal(self._steps[number](inputs), expected)

    def each(self, times: int = 1) -> None:
        for _ in range(times):
            for number in range(self.count):
                self.call(number)

    def states(self) -> dict[int, dict[str, torch.Tensor]]:
        found = {}
        for number in range(self.trainings):
            state = self._steps[number].state_dict()
            found[number] = training_state(state["model"], state["optimizer"])
        return found

    def close(self) -> None:
        for step in self._steps.values():
            step.close()


def _measure(case: str, quick: bool, report: Report) -> None:
    count, trainings = (QUICK_JOBS, QUICK_TRAININGS) if quick else (JOBS, TRAININGS)
    least = (QUICK_LEAST if quick else LEAST)[case]
    total = sum(image_bytes(make_model(n, n < trainings), n < trainings) for n in range(count))
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        words = ("--staging", str(int(OF_STORE * total)), "--spill", f"{folder}:{2 * total}",
                 "--recovery-memory", str(2 * total), "--trace", str(trace),
                 "--standby", "0", "--lanes", str(LANES))  # fmt: skip
        pool = int(OF_POOL * total) // MIB * MIB
        with Daemon(pool, words=words) as daemon, laneway.connect(daemon.address) as service:
            chance = random.Random(SEED)
            helds = _come_and_go(daemon, service, chance, (count, trainings))
            before = helds[-1]
            seen = Crowd(service, count, trainings)
            seen.each()
            images = sum(job["persistent_bytes"] for job in service.status()["jobs"]
                         if job["state"] not in ("finished", "failed", "cancelled"))  # fmt: skip
            for call in range(int(least * CALLS_A_SWITCH)):
                if call % 500 == 0:
                    progress(f"crowd: {case}, call {call}")
                seen.call(chance.randrange(count))
            seen.each(FURTHER)
            states = seen.states()
            seen.close()
            after = _held(daemon, service)
        ways, comings, failed = _moves(trace)
    report.add(case, "pool_of_images", pool / images, "share", at_most(OF_POOL))
    report.add(case, "evictions", float(ways.total()), "evictions", at_least(least))
    report.add(case, "switches", float(comings), "switches", at_least(least))
    report.add(
        case, "by_way_of_the_file", ways["spill"] / ways.total(), "share", at_least(0.5),
        note=f"{ways['store']} into memory",
    )  # fmt: skip
    report.add(case, "copies_that_failed", float(failed), "copies", at_most(0.0))
    report.add(case, "wrong_answers", float(seen.wrong), "answers", at_most(0.0))
    _compare(case, seen, states, total, report)
    report_against(case, before, after, report)
    report.add(
        case, "crowds_of_the_baseline", float(len(helds)), "crowds",
        samples=[held[MEMORY] for held in helds],
        note="samples: bytes of memory of the service's processes after each"
        + ("" if settled([held[MEMORY] for held in helds]) else "; they had not settled"),
    )  # fmt: skip


def _come_and_go(
    daemon: Daemon, service: Any, chance: random.Random, sizes: tuple[int, int]
) -> list[dict[str, float]]:
    """What is held after each crowd, the last three of which left equal memory, if ever."""
    helds: list[dict[str, float]] = []
    count, trainings = sizes
    while len(helds) < MOST_BASELINES:
        progress(f"crowd: {len(helds) + 1} for the baseline")
        first = Crowd(service, count, trainings)
        for _ in range(CALLS_OF_BASELINE * count):
            first.call(chance.randrange(count))
        first.close()
        helds.append(_held(daemon, service))
        if len(helds) >= BASELINES and settled([held[MEMORY] for held in helds]):
            break
    return helds


def settled(sizes: list[float]) -> bool:
    """Whether the last three are equal, nearly."""
    last = sizes[-3:]
    return len(last) == 3 and max(last) - min(last) <= SETTLED * max(last)


def _held(daemon: Daemon, service: Any) -> dict[str, float]:
    held = resources(daemon, service, workers=1)
    status = service.status()
    for tier in ("store", "spill"):
        held[f"{tier}_bytes"] = float(status[tier]["used_bytes"])
    children = children_of(daemon.process.pid)
    held[MEMORY] = sum(anonymous_bytes(child) for child in children)
    return held


def _moves(trace: Path) -> tuple[Counter[str], int, int]:
    """Evictions by tier, images that came in, copies that failed."""
    reader = daemon_program().parent / "laneway-trace"
    text = subprocess.run([str(reader), str(trace)], check=True, capture_output=True, text=True)
    ways = Counter(LEAVING.findall(text.stdout))
    return ways, len(COMING.findall(text.stdout)), len(FAILED.findall(text.stdout))


def _compare(
    case: str, seen: Crowd, states: dict[int, dict[str, torch.Tensor]], total: int, report: Report
) -> None:
    """With trainings that were never pushed out."""
    progress("crowd: the trainings again, with room for all")
    with laneway.embedded(4 * total, staging=0) as service:
        calm = Crowd(service, seen.trainings, seen.trainings)
        for number, losses in seen.losses.items():
            for _ in losses:
                calm.call(number)
        expected = calm.states()
    differences = [first_difference(states[n], expected[n]) for n in states]
    differences += ["losses" for n in states if seen.losses[n] != calm.losses[n]]
    lost = [text for text in differences if text]
    iterations = sum(len(losses) for losses in seen.losses.values())
    note = lost[0] if lost else f"losses and states of {iterations} iterations"
    report.add(case, "trainings_that_differ", float(len(lost)), "jobs", at_most(0.0), note=note)
