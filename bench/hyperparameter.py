"""hyperparameter: how long does a search take whose trainings differ in learning rate?

24 trainings of gpt of some 5 s each (measured alone in eager PyTorch with one thread), each with
its own learning rate and seed. The makespan runs from the begin until the last one's weights and
loss are there.

`one_client`: torch is imported before the clock starts, on both sides. `laneway` is one process
with 24 steps on a service that runs (two lanes on two cores); a thread for each step calls it.
Plain PyTorch is a pool of 1, 2, 4 or 24 worker processes with one thread each, and of one worker
with torch's own number of threads (`1_threads`).
`clients`: 24 clients of a service that runs, against 24 plain processes, the start of each
included.

`makespan_ratio` is Laneway's over the best of plain PyTorch's (medians of the rounds). Every
training must end with the loss and the weights of the plain one, bit for bit; the variant with
torch's own threads is not compared. `peak_pss` is what all processes of a variant had at most,
looked at twice a second; of Laneway, client and service together."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import torch

import laneway

from . import stats
from .daemon import Daemon
from .harness import Calibration, Options, interleaved, progress, single_thread_environment
from .hyperparameter_jobs import Result, finish, step_of, train_plain, work_of
from .report import ROOT, Report, at_most
from .shared_memory import family, pss_of

TRAININGS, QUICK_TRAININGS = 24, 3
TRAINING_S, QUICK_TRAINING_S = 5.0, 0.3
WORKERS, QUICK_WORKERS = (1, 2, 4, 24), (1, 3)
ROUNDS = 3
PROBED_ITERATIONS, QUICK_PROBED_ITERATIONS = 100, 10
POOL = "2GiB"
LOOK_EVERY_S = 0.5
OWN_THREADS = "1_threads"
MAKESPAN = at_most(1.0)

Results = list[Result]


def cases() -> list[str]:
    return ["one_client", "clients"]


def run(options: Options) -> Report:
    report = Report("hyperparameter")
    quick = options.quick
    count = QUICK_TRAININGS if quick else TRAININGS
    iterations = iterations_for(
        QUICK_TRAINING_S if quick else TRAINING_S,
        _iteration_s(QUICK_PROBED_ITERATIONS if quick else PROBED_ITERATIONS),
    )
    rounds = 1 if quick else ROUNDS
    calibration = Calibration()
    if options.wants("one_client"):
        variants: dict[str, Callable[[], tuple[float, Results, int]]] = {
            "laneway": partial(_one_client, count, iterations)
        }
        for workers in QUICK_WORKERS if quick else WORKERS:
            variants[f"{workers}_workers"] = partial(_pool, workers, count, iterations, 1)
        if not quick:
            variants[OWN_THREADS] = partial(_pool, 1, count, iterations, torch.get_num_threads())
        _compare("one_client", variants, rounds, calibration, report, iterations)
    if options.wants("clients"):
        variants = {
            "laneway": partial(_clients, count, iterations),
            f"{count}_processes": partial(_processes, count, iterations),
        }
        _compare("clients", variants, rounds, calibration, report, iterations)
    calibration.add_to(report)
    return report


def iterations_for(seconds: float, iteration_s: float) -> int:
    return max(1, round(seconds / iteration_s))


def _iteration_s(iterations: int) -> float:
    """Seconds of one, alone in eager with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train_plain(0, 3)
        begun = time.perf_counter()
        train_plain(0, iterations)
        return (time.perf_counter() - begun) / iterations
    finally:
        torch.set_num_threads(threads)


def _compare(
    case: str,
    variants: dict[str, Callable[[], tuple[float, Results, int]]],
    rounds: int,
    calibration: Calibration,
    report: Report,
    iterations: int,
) -> None:
    took: dict[str, list[float]] = {name: [] for name in variants}
    peaks: dict[str, list[int]] = {name: [] for name in variants}
    results: dict[str, Results] = {}
    for order in interleaved(list(variants), rounds):
        for name in order:
            progress(f"hyperparameter: {case}, {name}")
            calibration.sample()
            seconds, found, peak = variants[name]()
            took[name].append(seconds)
            peaks[name].append(peak)
            results[name] = sorted(found, key=lambda result: result.number)
    report_case(case, took, peaks, results, iterations, report)


def report_case(
    case: str,
    took: dict[str, list[float]],
    peaks: dict[str, list[int]],
    results: dict[str, Results],
    iterations: int,
    report: Report,
) -> None:
    """`laneway` against the others."""
    for name, samples in took.items():
        report.add(case, f"{name}_makespan_s", stats.median(samples), "s", samples=samples,
                   note=f"{len(results[name])} trainings of {iterations} iterations")  # fmt: skip
        report.add(case, f"{name}_peak_pss", statistics.median(peaks[name]) / 2**20, "MiB")
    plain = {name: stats.median(samples) for name, samples in took.items() if name != "laneway"}
    best = min(plain, key=lambda name: plain[name])
    ratio = stats.median(took["laneway"]) / plain[best]
    report.add(case, "makespan_ratio", ratio, "ratio", MAKESPAN, note=f"best: {best}")
    compared = [results[name] for name in plain if name != OWN_THREADS]
    differing = sum(
        mine != theirs for plainly in compared for mine, theirs in zip(
            results["laneway"], plainly, strict=True)
    )  # fmt: skip
    report.add(case, "trainings_that_differ", float(differing), "trainings", at_most(0.0))


class Peak:
    """What processes have together at most while this is entered; PSS."""

    def __init__(self, pids: Callable[[], Sequence[int]]) -> None:
        self.bytes = 0
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            with suppress(OSError, ValueError):  # one of them has just ended
                self.bytes = max(self.bytes, pss_of(self._pids()))


def _service(stack: ExitStack) -> Daemon:
    """One lane for each core: trainings have one thread."""
    lanes = str(min(2, len(os.sched_getaffinity(0))))
    return stack.enter_context(Daemon(POOL, words=("--standby", "0", "--lanes", lanes)))


def _one_client(count: int, iterations: int) -> tuple[float, Results, int]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        daemon = _service(stack)
        service = stack.enter_context(laneway.connect(daemon.address))
        pids = [os.getpid(), *family(daemon.process.pid)]
        peak = stack.enter_context(Peak(lambda: pids))
        begun = time.perf_counter()
        works = [work_of(number) for number in range(count)]
        steps: list[Any] = []
        for number, work in enumerate(works):
            like = {"like": steps[0]} if steps else {}
            steps.append(step_of(work, service, number, iterations, **like))

        def train(number: int) -> Result:
            loss = torch.zeros(())
            for iteration in range(iterations):
                loss = steps[number](*works[number].batch(iteration))
                loss.item()
            return finish(number, steps[number], works[number], loss)

        steps[0].prepare(*works[0].batch(0))  # what the others are like
        with ThreadPoolExecutor(count) as pool:
            results = list(pool.map(train, range(count)))
        took = time.perf_counter() - begun
    return took, results, peak.bytes


def _pool(workers: int, count: int, iterations: int, threads: int) -> tuple[float, Results, int]:
    with ExitStack() as stack:
        processes = [_spawn(stack, ["pool"], threads) for _ in range(workers)]
        for process in processes:
            _line_of(process, "ready")
        left = iter(range(count))
        lock = threading.Lock()

        def serve(process: subprocess.Popen[str]) -> Results:
            done: Results = []
            assert process.stdin
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return done
                process.stdin.write(f"{number} {iterations}\n")
                process.stdin.flush()
                done.append(Result(**json.loads(_line_of(process))))

        peak = stack.enter_context(Peak(lambda: [process.pid for process in processes]))
        begun = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            results = [result for done in pool.map(serve, processes) for result in done]
        took = time.perf_counter() - begun
    return took, results, peak.bytes


def _clients(count: int, iterations: int) -> tuple[float, Results, int]:
    with ExitStack() as stack:
        daemon = _service(stack)
        words = [
            ["client", daemon.address, str(number), str(iterations)] for number in range(count)
        ]
        return _side_by_side(stack, words, family(daemon.process.pid))


def _processes(count: int, iterations: int) -> tuple[float, Results, int]:
    with ExitStack() as stack:
        words = [["plain", str(number), str(iterations)] for number in range(count)]
        return _side_by_side(stack, words, [])


def _side_by_side(
    stack: ExitStack, words: list[list[str]], others: list[int]
) -> tuple[float, Results, int]:
    """Starts a process for each, and waits for all."""
    processes: list[subprocess.Popen[str]] = []

    def pids() -> list[int]:
        return [*others, *(process.pid for process in processes if process.poll() is None)]

    peak = stack.enter_context(Peak(pids))
    begun = time.perf_counter()
    processes += [_spawn(stack, one, 1) for one in words]
    results = [Result(**json.loads(_line_of(process))) for process in processes]
    for process in processes:
        process.wait()
    return time.perf_counter() - begun, results, peak.bytes


def _spawn(stack: ExitStack, words: list[str], threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.hyperparameter_jobs", *words, f"--threads={threads}"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | single_thread_environment(threads) | _path(),
    )
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def _path() -> dict[str, str]:
    return {"PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"}


def _line_of(process: subprocess.Popen[str], wanted: str | None = None) -> str:
    assert process.stdout
    line = process.stdout.readline().strip()
    if not line or (wanted is not None and line != wanted):
        raise RuntimeError(f"a training's process said {line!r} and ended with {process.wait()}")
    return line
