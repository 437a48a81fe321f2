"""failover: is anything lost when a worker is killed, wherever it stands?

`nodes_*`: for each model one run of training steps in which each worker is killed at the next node
of its second iteration, so that every node is hit once; with states kept by undo logs and by
snapshots. `steps_*`: killed half-way through saving, restoring, a snapshot and the iterations that
are run again, each time the successor too. `random`: ten jobs train at once; workers are stopped
at random moments, the journal says what each job was at, and then they are killed; half of the
moments are chosen so that a job is in its commit phase. In every run losses, model and optimizer
must have the bits of a run that nobody disturbed, and each iteration must be there once."""

from __future__ import annotations

import mmap
import os
import random
import re
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import laneway

from .daemon import Daemon, children_of, cpu_s
from .harness import Options, progress
from .models import FIVE, NAMES, arguments, make, pool_for
from .report import Report, at_least, at_most
from .state import first_difference, training_state

METHODS = {"undo": ("--recovery", "undo"), "snapshot": ("--recovery", "snapshot:3")}
RANDOM = "random"
KILLS = 200
KILLS_IN_COMMIT = 100
QUICK_KILLS = 20
QUICK_NODES = 8  # of a model
BATCHES = 3  # different ones
# worker after worker: each dies at its point, while it or its predecessor's work is half done.
STEPS = {
    "undo": (
        "range_copied:7;range_restored:2;state_restored;range_saved:5;range_restored:1;"
        "slot_written:3;state_restored;commit_entered:2;commit_written:2;range_copied:3"
    ),
    "snapshot": (
        "snapshot_part:2;commit_entered:5;snapshot_restored:1;request_redone:1;request_logged:2;"
        "request_redone:1;snapshot_taken:2;slot_written:2;state_restored;commit_entered:3"
    ),
}
ITERATIONS_A_KILL = 12  # at most
SEED = 7
# service/journal/journal_layout.h: where the header has the place and size of the records, and a
# record its word; where the header counts requests that are over.
PLACES_IN_HEADER = 16
ENDED_IN_HEADER = 64
WORD_OF_RECORD = 64
COMMITTING = 2
RECORDS = 64  # more than there are jobs


def cases() -> list[str]:
    names = [f"{kind}_{method}_{name}" for kind in ("nodes", "steps") for method in METHODS
             for name in FIVE]  # fmt: skip
    return [*names, RANDOM]


def run(options: Options) -> Report:
    report = Report("failover")
    for case in cases():
        if not options.wants(case):
            continue
        progress(f"failover: {case}")
        if case == RANDOM:
            _measure_random(options, report)
            continue
        kind, method, name = case.split("_", 2)
        _measure_points(case, kind, method, name, options, report)
    return report


def _points(kind: str, method: str, nodes: int, quick: bool) -> list[str]:
    """One fault text a worker. The first dies in its third or fourth iteration: by then its graph
    is planned, which may have taken it half a probe more than a probe. Each further one runs the
    interrupted iteration again (`nodes` passes at most), and dies in the one behind it."""
    if kind == "steps":
        return [f"worker.{point}" for point in STEPS[method].split(";")]
    chosen: Sequence[int] = range(1, nodes + 1)
    if quick and nodes > QUICK_NODES:
        chosen = [1 + round(i * (nodes - 1) / (QUICK_NODES - 1)) for i in range(QUICK_NODES)]
    return [f"worker.node:{3 * nodes + 1}", *(f"worker.node:{nodes + node}" for node in chosen)]


def _measure_points(
    case: str, kind: str, method: str, name: str, options: Options, report: Report
) -> None:
    points = _points(kind, method, _node_count(name), options.quick)
    environment = {"LANEWAY_FAULT": points[0], "LANEWAY_FAULT_AGAIN": ";".join([*points[1:], ""])}
    with ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "log"
        words = ("--standby", "0", "--log-file", str(log), *METHODS[method])
        daemon = stack.enter_context(
            Daemon(pool_for(make(name)), words=words, environment=environment)
        )
        deaths = Deaths(log)
        jobs = Jobs([name], stack.enter_context(laneway.connect(daemon.address)))
        # Every death needs an iteration, and some points need several.
        while deaths.count() < len(points) and jobs.iterations < ITERATIONS_A_KILL * len(points):
            jobs.train()
        jobs.train()
        jobs.train()
        seen = jobs.close()
        kills = deaths.count()
    report.add(case, "kills", float(kills), "kills", at_least(float(len(points))))
    compare(case, [name], seen, report)


def _node_count(name: str) -> int:
    work = make(name)
    with laneway.embedded(pool=pool_for(work), lanes=1) as service:
        jobs = Jobs([name], service)
        jobs.train()
        nodes = int(service.job_report(name)["graphs"][0]["nodes"])
        jobs.close()
        return nodes


class Jobs:
    """One training a name, each with an iteration in flight at a time."""

    def __init__(self, names: Sequence[str], service: Any) -> None:
        self.works = {name: make(name) for name in names}
        self.iterations = 0
        self._losses: dict[str, list[float]] = {name: [] for name in names}
        self._steps = {}
        for name, work in self.works.items():
            torch.manual_seed(SEED)  # of the job's own generator
            self._steps[name] = laneway.train_step(
                work.model, work.loss_fn, work.optimizer, service=service, name=name, random="own"
            )
        self._batches = {
            name: [arguments(work.batch(i)) for i in range(BATCHES)]
            for name, work in self.works.items()
        }

    def train(self) -> None:
        """One iteration of every job."""
        futures = {}
        for name, step in self._steps.items():
            inputs, named = self._batches[name][self.iterations % BATCHES]
            futures[name] = step.submit(*inputs, **named)
        for name, future in futures.items():
            self._losses[name].append(future.result().item())
        self.iterations += 1

    def close(self) -> dict[str, dict[str, torch.Tensor]]:
        """Losses and state of every job, which end."""
        seen = {}
        for name, step in self._steps.items():
            state = step.state_dict()
            seen[name] = training_state(state["model"], state["optimizer"])
            seen[name]["losses"] = torch.tensor(self._losses[name], dtype=torch.float64)
            step.close()
        return seen


class Deaths:
    """How many workers of a service were killed so far, by its log."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def count(self) -> int:
        text = self._log.read_text() if self._log.exists() else ""
        return len(re.findall(r" worker \d+ ended: signal 9", text))


def compare(
    case: str, names: Sequence[str], seen: dict[str, dict[str, torch.Tensor]], report: Report
) -> None:
    """Against a run of as many iterations in this process that nobody disturbed."""
    iterations = len(next(iter(seen.values()))["losses"])
    pool = sum(pool_for(make(name)) for name in names)
    with laneway.embedded(pool=pool) as service:
        jobs = Jobs(names, service)
        for _ in range(iterations):
            jobs.train()
        expected = jobs.close()
    differences = [first_difference(seen[name], expected[name]) for name in names]
    lost = [text for text in differences if text]
    note = lost[0] if lost else f"losses and states of {iterations} iterations"
    report.add(case, "jobs_that_differ", float(len(lost)), "jobs", at_most(0.0), note=note)


def _measure_random(options: Options, report: Report) -> None:
    kills = QUICK_KILLS if options.quick else KILLS
    chance = random.Random(SEED)
    words = ("--lanes", "4")
    with ExitStack() as stack:
        pool = sum(pool_for(make(name)) for name in NAMES)
        daemon = stack.enter_context(Daemon(pool, words=words))
        killer = stack.enter_context(Killer(daemon, chance, kills))
        jobs = Jobs(NAMES, stack.enter_context(laneway.connect(daemon.address)))
        jobs.train()
        killer.start()
        while killer.is_alive():
            jobs.train()
        jobs.train()
        seen = jobs.close()
    phases = killer.phases
    report.add(RANDOM, "kills", float(len(phases)), "kills", at_least(float(kills)))
    inside = sum(1 for found in phases if COMMITTING in found)
    wanted = kills * KILLS_IN_COMMIT // KILLS
    report.add(RANDOM, "kills_in_commit_phase", float(inside), "kills", at_least(float(wanted)))
    compare(RANDOM, NAMES, seen, report)


class Killer(threading.Thread):
    """Stops the active worker, reads in the journal what its jobs are at, and kills it; `kills`
    times. Every other time it waits for a job in its commit phase first."""

    def __init__(self, daemon: Daemon, chance: random.Random, kills: int) -> None:
        super().__init__(daemon=True)
        self._daemon, self._chance, self._kills = daemon, chance, kills
        self.phases: list[list[int]] = []  # of the jobs, by kill

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        self._kills = 0
        if self.is_alive():
            self.join()

    def run(self) -> None:
        journal = JournalWords(self._daemon.process.pid)
        ended = -1
        while len(self.phases) < self._kills:
            # The next one after a completed request: workers that do nothing end the service.
            while journal.ended() == ended and len(self.phases) < self._kills:
                time.sleep(0.005)
            time.sleep(self._chance.uniform(0.0, 0.3))
            if len(self.phases) % 2 == 0:
                until = time.perf_counter() + 2
                while COMMITTING not in journal.phases() and time.perf_counter() < until:
                    pass
            try:
                worker = min(children_of(self._daemon.process.pid), key=_age_of_worker)
                os.kill(worker, signal.SIGSTOP)
            except (LookupError, OSError, ValueError):
                continue  # it is just dying
            self.phases.append(journal.phases())
            ended = journal.ended()
            os.kill(worker, signal.SIGKILL)


def _age_of_worker(pid: int) -> float:
    """A key by which the worker that has worked most comes first."""
    name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return -cpu_s(pid) if name == "laneway-worker" else 0.0


class JournalWords:
    """The phase of every job, as the journal of a running service has it now."""

    def __init__(self, pid: int) -> None:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found = "laneway-journal" in os.readlink(link)
            except FileNotFoundError:  # closed meanwhile
                continue
            if found:
                with link.open("rb") as file:
                    self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return
        raise LookupError(f"process {pid} has no journal open")

    def ended(self) -> int:
        """Requests that are over, of all jobs."""
        (count,) = struct.unpack_from("<Q", self._memory, ENDED_IN_HEADER)
        return int(count)

    def phases(self) -> list[int]:
        found = []
        first, size = struct.unpack_from("<II", self._memory, PLACES_IN_HEADER)
        for at in range(first, first + RECORDS * size, size):
            (job,) = struct.unpack_from("<Q", self._memory, at)
            if job:
                (word,) = struct.unpack_from("<Q", self._memory, at + WORD_OF_RECORD)
                found.append(word & 7)
        return found
