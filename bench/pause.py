"""pause: for how long does a training stand still when the process that computes it is killed?

A client keeps two steps in flight. The active worker is killed (SIGKILL) at a random moment of a
step, when the status shows a standby that has prepared the job. A pause is the longest gap between
two completions from there on, less the usual one (the median of the gaps before). Beside it: a
standby that has prepared nothing, no standby, and an eager script that a loop starts again from a
file which it writes every ten steps (bench/pause_probe.py): from the last step before the kill to
the first one that the killed process had not done.

A worker may die while it writes the job's state. What that costs is part of the pause where the
job goes on; a job that is lost is counted, has no pause, and is made anew."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import stats
from .daemon import Daemon
from .harness import Calibration, Options, progress, single_thread_environment
from .report import ROOT, Report, at_most

CASES = ("mlp", "cnn", "gpt", "lstm", "resnet18", "bert")
KILLS = 100
QUICK_KILLS = 10
# Of the others there are as many kills as show the order of magnitude.
OTHERS_SHARE = 10
LEAST_KILLS = 3
VARIANTS = {"prepared": (), "unprepared": ("--unprepared-standby",), "none": ("--standby", "0")}
P95 = at_most(300)
POOL = "2GiB"
KILLS_A_SERVICE = 25
GAPS_BEFORE = 11
COMPLETIONS_AFTER = 6
TIMEOUT_S = 120.0


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("pause")
    calibration = Calibration()
    kills = QUICK_KILLS if options.quick else KILLS
    others = max(kills // OTHERS_SHARE, LEAST_KILLS)
    for case in filter(options.wants, CASES):
        for variant, words in VARIANTS.items():
            progress(f"pause: {case}, {variant}")
            calibration.sample()
            count = kills if variant == "prepared" else others
            add_rows(report, case, variant, service_pauses(case, words, count, options))
        progress(f"pause: {case}, eager")
        add_rows(report, case, "eager", eager_pauses(case, others))
    calibration.add_to(report)
    return report


def add_rows(report: Report, case: str, variant: str, found: list[float | None]) -> None:
    """`found`: seconds; None for a job that was lost."""
    pauses = [pause * 1e3 for pause in found if pause is not None]
    lost = len(found) - len(pauses)
    for name, quantile in (("p50", 50), ("p95", 95)):
        target = P95 if (variant, name) == ("prepared", "p95") else None
        metric = f"{variant}_{name}_ms"
        if pauses:
            value = stats.percentile(pauses, quantile)
            report.add(case, metric, value, "ms", target, samples=pauses,
                       note=f"of {len(pauses)} kills")  # fmt: skip
        else:
            report.add(case, metric, None, "ms", target, note="each kill lost the job")
    if variant != "eager":
        report.add(case, f"{variant}_jobs_lost", lost, "jobs", note=f"of {len(found)} kills")


def service_pauses(
    case: str, words: tuple[str, ...], kills: int, options: Options
) -> list[float | None]:
    """Of a training through a service, which is another one every few kills."""
    found: list[float | None] = []
    while len(found) < kills:
        with Client(case, words, options) as client:
            for _ in range(min(KILLS_A_SERVICE, kills - len(found))):
                found.append(client.kill(wants_standby="0" not in words))
    return found


def pause_of(gaps_before: list[float], gaps_after: list[float]) -> float:
    """The longest gap, less the usual one; never below 0."""
    return max(max(gaps_after) - stats.median(gaps_before), 0.0)


class Client:
    """A training through a lanewayd of its own, with two steps in flight."""

    def __init__(self, case: str, words: tuple[str, ...], options: Options) -> None:
        import torch

        import laneway

        from .models import make

        torch.set_num_threads(options.threads)
        self._laneway, self._make, self._case = laneway, make, case
        self._daemon = Daemon(POOL, options.cores, words)
        self._random = random.Random(case)
        self._service = laneway.connect(self._daemon.address)
        self._begin()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self._service.close()
        self._daemon.__exit__(*exception)

    def _begin(self) -> None:
        work = self._make(self._case)
        self._batches = [work.batch(i) for i in range(4)]
        self._step = self._laneway.train_step(
            work.model, work.loss_fn, work.optimizer, self._service, random="own"
        )
        self._pending: deque[Any] = deque()
        self._submitted = 0
        self._last = time.perf_counter()
        self.gaps(5)

    def gaps(self, count: int) -> list[float]:
        """Seconds between completions."""
        found = []
        for _ in range(count):
            while len(self._pending) < 2:
                batch = self._batches[self._submitted % len(self._batches)]
                self._pending.append(self._step(*batch))
                self._submitted += 1
            self._pending.popleft().item()
            now = time.perf_counter()
            found.append(now - self._last)
            self._last = now
        return found

    def kill(self, wants_standby: bool) -> float | None:
        """The pause; None when the job was lost."""
        pid = self._active_when_ready(wants_standby)
        self.gaps(2)
        before = self.gaps(GAPS_BEFORE)
        time.sleep(self._random.random() * stats.median(before))
        os.kill(pid, signal.SIGKILL)
        try:
            return pause_of(before, self.gaps(COMPLETIONS_AFTER))
        except self._laneway.JobFailed:
            self._begin()
            return None

    def _active_when_ready(self, wants_standby: bool) -> int:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            workers = self._service.status()["workers"]
            ready = {w["role"]: w for w in workers if w["state"] == "ready"}
            standby = ready.get("standby")
            prepared = standby and standby["jobs_prepared"] == standby["jobs_to_prepare"]
            if "active" in ready and (prepared or not wants_standby):
                return ready["active"]["pid"]
            time.sleep(0.05)
        raise TimeoutError(f"no worker was ready in {TIMEOUT_S:.0f} s")


def eager_pauses(case: str, kills: int) -> list[float | None]:
    """Of an eager script that is started again after each kill."""
    found: list[float | None] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        chance = random.Random(case)
        done, last = 0, 0.0
        usual: list[float] = []
        for life in range(kills + 1):
            with _script(case, path) as steps:
                for number, at in steps:
                    if number > done:
                        if life > 0 and len(found) < life:
                            found.append(pause_of(usual, [at - last]))
                        usual = [*usual[-GAPS_BEFORE:], at - last] if done else usual
                        done, last = number, at
                    # Far enough that a median is known, at any of the ten steps between two files.
                    enough = len(usual) >= GAPS_BEFORE and len(found) == life
                    if enough and chance.random() < 0.1:
                        break
    return found


@contextmanager
def _script(case: str, path: Path) -> Iterator[Iterator[tuple[int, float]]]:
    """The number of each step that it has done, and when; it is killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.pause_probe", case, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | single_thread_environment(1) | {"PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"},
    )
    assert process.stdout
    try:
        yield ((int(n), float(at)) for n, at in (line.split() for line in process.stdout))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
