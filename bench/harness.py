"""How the benches measure: interleaved rounds, a calibration loop, fixed threads.

A round runs one trial of every variant, forwards in even rounds and backwards in odd ones
(A B B A …), so that slow drift of the machine hits all variants alike. Trials of one round are
paired: their ratio is what is compared (bench/stats.py)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import stats
from .report import Report


@dataclass(frozen=True)
class Options:
    """What run.py hands to a bench. `only` empty means every case."""

    trials: int = 30
    quick: bool = False
    only: tuple[str, ...] = ()
    out: Path = Path("build/bench")
    threads: int = 1
    samples: int | None = None  # of what a database has of a kind, for the bench operators
    other: Path | None = None  # another checkout of the project, for comparisons with it
    traces: Path | None = None  # a folder of public traces that are not in the repository
    cores: tuple[int, ...] = ()  # pin everything measured to these; empty: wherever it may run

    def wants(self, case: str) -> bool:
        return not self.only or case in self.only


def interleaved(variants: Sequence[str], rounds: int) -> Iterator[list[str]]:
    """The order of the variants in each round: forwards, backwards, forwards, …"""
    for index in range(rounds):
        yield list(variants) if index % 2 == 0 else list(reversed(variants))


def paired_trials(variants: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Runs every variant once a round, interleaved; the i-th samples of all were taken together."""
    samples: dict[str, list[float]] = {name: [] for name in variants}
    for order in interleaved(list(variants), rounds):
        for name in order:
            samples[name].append(variants[name]())
    return samples


CALIBRATION_STEPS = 100_000


def calibration_loop(steps: int = CALIBRATION_STEPS) -> int:
    """Fixed integer arithmetic (a linear congruential generator) that touches no memory."""
    x = 1
    for _ in range(steps):
        x = (x * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return x


@dataclass
class Calibration:
    """Times the same pure CPU work beside the trials: figures taken while this time differed were
    taken on a machine of another speed (or one that was busy)."""

    samples_ms: list[float] = field(default_factory=list)

    def sample(self) -> None:
        start = time.perf_counter_ns()
        calibration_loop()
        self.samples_ms.append((time.perf_counter_ns() - start) / 1e6)

    def add_to(self, report: Report) -> None:
        """Adds the row; none where nothing was measured."""
        if self.samples_ms:
            median = stats.median(self.samples_ms)
            report.add("calibration", "loop_ms", median, "ms", samples=self.samples_ms)


def pin(cores: Sequence[int]) -> None:
    """Keeps this process (and what it starts) on `cores`; nothing when empty."""
    if cores:
        os.sched_setaffinity(0, set(cores))


def single_thread_environment(threads: int | None) -> dict[str, str]:
    """Environment for a measured process: every threading runtime gets `threads` threads; None
    leaves it the count that it takes by itself."""
    if threads is None:
        return {}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: str(threads) for name in names}


@contextmanager
def operator_threads(count: int) -> Iterator[None]:
    """In here torch computes with `count` threads, and so do iterations that are captured."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def progress(text: str) -> None:
    """One line on stderr, so that a long bench shows where it is."""
    print(text, file=sys.stderr, flush=True)


SANITIZED = ("asan", "tsan")  # builds whose times say nothing


def find_program(name: str, folder: str = "bench") -> Path:
    """One of the benches' programs, or with "bin" of those that users run: from $LANEWAY_BUILD if
    that is set, else from the release build, else the newest there is. The FileNotFoundError says
    how to get one."""
    root = Path(__file__).resolve().parent.parent / "build"
    given = os.environ.get("LANEWAY_BUILD")
    folders = [Path(given)] if given else [root / "release"]
    programs = [build / folder / name for build in folders]
    if not given:
        others = [p for p in root.glob(f"*/{folder}/{name}") if p.parts[-3] not in SANITIZED]
        programs += sorted(others, key=lambda program: program.stat().st_mtime, reverse=True)
    for program in programs:
        if program.exists():
            return program
    raise FileNotFoundError(f"{name} is not built: ./dev build")
