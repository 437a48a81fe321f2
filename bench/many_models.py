"""many_models: is each of many rarely used models answered by `laneway serve` as if it were alone?

200 models of 14 kinds (those of the bench consolidation, with weights of their own) are served by
one gateway and one lanewayd, whose pool has a tenth of the bytes of all images, or the largest one
where that is more, and the largest need of an iteration; the others lie outside. Requests of batch
1 come as a Poisson process (open loop), for models drawn by Zipf's law, at 10 % of what the models
take alone, beside a training of an mlp in a process of its own. Each is a binary one over HTTP;
every answer is compared with eager's bits.

`p99_over_one`: the p99 over that of the same arrivals where each takes what a model of its kind
took when it was the only one to be asked and its image had to come back first. `training`: its
iterations a second over those in the halves without requests, before and behind. `gateway_pss`: of
the gateway and what it started; its children fork with torch, and are there while a model is
made."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import laneway

from . import stats
from .consolidation import KINDS, Model, needs_of
from .daemon import Daemon
from .gateway_parts import DATATYPES, Caller, Program, write_model
from .harness import Calibration, Options, operator_threads, progress, single_thread_environment
from .models import make
from .open_loop import Arrival, poisson, zipf
from .report import Report, at_least, at_most
from .shared_memory import family, pss_of

MODELS = 200
QUICK_KINDS, QUICK_MODELS = ("mlp", "cnn"), 4
ALONE, QUICK_ALONE = 30, 3  # requests of a kind, warm, and as many of an image that is away
WINDOW_S, QUICK_WINDOW_S = 120.0, 2.0
LOAD = 0.1
SHARE_OF_POOL = 10
CALLERS = 32
PAUSE_S = 0.005  # before a request alone
SEED = 42
CODE = """
from bench.models import make
def load():
    return make({kind!r}, {seed}).model.eval()
"""
GIB = 2**30


def cases() -> list[str]:
    return ["zipf"]


def run(options: Options) -> Report:
    report = Report("many_models")
    if not options.wants("zipf"):
        return report
    kinds = QUICK_KINDS if options.quick else KINDS
    count = QUICK_MODELS if options.quick else MODELS
    with operator_threads(1), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-")))
        served = [_served(folder / "models", kinds[i % len(kinds)], i) for i in range(count)]
        needs = [needs_of(Model.made(kind, 0)) for kind in kinds]
        images = [needs[i % len(kinds)].persistent for i in range(count)]
        pool = max(sum(images) // SHARE_OF_POOL, max(images))
        pool += max(max(need.predicted, need.measured) for need in needs)
        pool += _training_bytes()
        outside = min(sum(images), shutil.disk_usage(folder).free // 4)
        words = ["--spill", f"{folder / 'spill'}:{outside}", "--staging", str(_staging(outside))]
        (folder / "spill").mkdir()
        daemon = stack.enter_context(Daemon(pool, words=words))
        words = ["laneway.cli", "serve", "--address", daemon.address, "--listen", "127.0.0.1:0"]
        words += ["--grpc", "127.0.0.1:0"]
        words += ["--models", str(folder / "models"), "--scratch", str(folder / "scratch")]
        program = stack.enter_context(Program(words))
        told = f"kinds: {', '.join(kinds)}; pool {pool} bytes, images {sum(images)}"
        report.add("zipf", "models", float(count), "models", note=told)
        _measure(options, report, served, kinds, program, daemon.address)
    return report


@dataclass(frozen=True)
class Served:
    name: str
    inputs: dict[str, torch.Tensor]
    expected: bytes


@torch.no_grad()
def _served(models: Path, kind: str, number: int) -> Served:
    """Writes the model's folder, and what eager answers to its one request."""
    seed = number // 2 + 1  # two kinds may have the same one
    work = make(kind, seed)
    given = [tensor[:1].clone() for tensor in work.batch(0)[:-1]]
    answer = work.model.eval()(*given)
    inputs = {f"x{index}": tensor for index, tensor in enumerate(given)}
    rows = [("input", name, tensor) for name, tensor in inputs.items()]
    toml = "priority = 1\n"
    for what, name, tensor in [*rows, ("output", "y", answer)]:
        toml += f'[[{what}]]\nname = "{name}"\ndatatype = "{DATATYPES[tensor.dtype]}"\n'
        toml += f"shape = {list(tensor.shape)}\n"
    name = f"{kind}-{number}"
    write_model(models, name, toml, CODE.format(kind=kind, seed=seed))
    return Served(name, inputs, answer.contiguous().numpy().tobytes())


def _staging(outside: int) -> int:
    """What of the images lies in memory: a quarter of what is free, at most."""
    return min(outside, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)


def _training_bytes() -> int:
    model = make("mlp").model
    return 8 * sum(p.numel() * p.element_size() for p in model.parameters()) + (1 << 20)


class _Asking:
    """Callers of a gateway, a connection each."""

    def __init__(self, host: str, served: list[Served]) -> None:
        self._host, self._served = host, served
        self._requests = [Caller(host, one.name, one.inputs).request for one in served]
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(CALLERS)
        self.wrong = 0

    def ask(self, model: int) -> float:
        """When the answer was there. Raises RuntimeError when it is none."""
        caller = getattr(self._own, "caller", None)
        if caller is None:
            one = self._served[model]
            caller = self._own.caller = Caller(self._host, one.name, one.inputs)
        caller.request = self._requests[model]
        try:
            answer = caller.ask()
        except (RuntimeError, OSError):
            caller.close()
            self._own.caller = None
            raise
        ended = time.perf_counter()
        self.wrong += not answer.endswith(self._served[model].expected)
        return ended

    def submit(self, model: int) -> Future[float]:
        return self._pool.submit(self.ask, model)

    def close(self) -> None:
        self._pool.shutdown()


def _measure(
    options: Options,
    report: Report,
    served: list[Served],
    kinds: tuple[str, ...],
    program: Program,
    address: str,
) -> None:
    calibration, asking = Calibration(), _Asking(program.host, served)
    with laneway.connect(address) as service, _Training(address) as training:
        for begun in range(0, len(served), 4):  # each of them is imported and captured now
            progress(f"many_models: {begun} of {len(served)} models are loaded")
            for future in [asking.submit(m) for m in range(begun, min(begun + 4, len(served)))]:
                future.result()
        report.add("zipf", "gateway_pss", pss_of(family(program.pid)) / GIB, "GiB", at_most(1.5))
        times = QUICK_ALONE if options.quick else ALONE
        alone = [_alone(asking, service, served, kind, times) for kind in range(len(kinds))]
        shares = zipf(len(served))
        mean_s = sum(s * stats.median(alone[m % len(kinds)][0]) for m, s in enumerate(shares))
        window_s = QUICK_WINDOW_S if options.quick else WINDOW_S
        arrivals = poisson(LOAD / mean_s, window_s, len(served), SEED, shares)
        calibration.sample()
        progress(f"many_models: {len(arrivals)} requests in {window_s:.0f} s, beside a training")
        before = training.rate(window_s / 2)
        with training.counting() as beside:
            latencies, errors = _drive(arrivals, asking)
        after = training.rate(window_s / 2)
    asking.close()
    _report(report, arrivals, latencies, errors, asking.wrong, alone)
    share = beside.rate / ((before + after) / 2)
    report.add("zipf", "training", share, "of alone", at_least(0.9))
    calibration.add_to(report)


def _alone(
    asking: _Asking, service: Any, served: list[Served], model: int, times: int
) -> tuple[list[float], list[float]]:
    """Seconds of requests for this model, with its image in the pool and with it outside."""
    progress(f"many_models: {served[model].name} alone")
    warm, away = [], []
    for took, leaves in ((warm, False), (away, True)):
        for _ in range(times):
            if leaves:
                service.command("unload", served[model].name)
            time.sleep(PAUSE_S)
            begun = time.perf_counter()
            took.append(asking.ask(model) - begun)
    return warm, away


def _drive(arrivals: list[Arrival], asking: _Asking) -> tuple[list[float], int]:
    """Seconds from each scheduled arrival until its answer, and how many had none."""
    begin, futures = time.perf_counter() + 0.05, []
    for arrival in arrivals:
        left = begin + arrival.at_s - time.perf_counter()
        if left > 0:
            time.sleep(left)
        futures.append(asking.submit(arrival.model))
    latencies, errors = [], 0
    for arrival, future in zip(arrivals, futures):
        try:
            latencies.append(future.result() - begin - arrival.at_s)
        except (RuntimeError, OSError) as error:
            progress(f"many_models: {error}")
            errors += 1
    return latencies, errors


def _report(
    report: Report,
    arrivals: list[Arrival],
    latencies: list[float],
    errors: int,
    wrong: int,
    alone: list[tuple[list[float], list[float]]],
) -> None:
    one = [(took := alone[a.model % len(alone)][1])[a.number % len(took)] for a in arrivals]
    report.add("zipf", "requests", float(len(arrivals)), "requests")
    report.add("zipf", "errors", float(errors), "requests", at_most(0.0))
    report.add("zipf", "wrong_answers", float(wrong), "answers", at_most(0.0))
    for q, metric in ((50, "p50"), (99, "p99")):
        ours = stats.percentile(latencies, q) if latencies else None
        own = stats.percentile(one, q)
        report.add("zipf", f"{metric}_ms", None if ours is None else ours * 1e3, "ms",
                   samples=[s * 1e3 for s in latencies])  # fmt: skip
        report.add("zipf", f"one_{metric}_ms", own * 1e3, "ms", samples=[s * 1e3 for s in one])
        report.add("zipf", f"{metric}_over_one", None if ours is None else ours / own, "x",
                   at_most(1.3) if metric == "p99" else None)  # fmt: skip


class _Training:
    """An mlp that trains in a process of its own. A context manager."""

    def __init__(self, address: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._iterations, self._goes = context.Value("q", 0), context.Event()
        self._process = context.Process(
            target=_train, args=(address, self._iterations, self._goes), daemon=True
        )
        self._goes.set()
        old = {name: os.environ.get(name) for name in single_thread_environment(1)}
        os.environ.update(single_thread_environment(1))
        try:
            self._process.start()
        finally:
            for name, value in old.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def __enter__(self) -> _Training:
        while self._iterations.value == 0:
            if not self._process.is_alive():
                raise RuntimeError(f"the training ended with {self._process.exitcode}")
            time.sleep(0.05)
        self._goes.clear()  # until it is counted, nothing else is to be there
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.join()

    def counting(self) -> _Counting:
        self._goes.set()
        return _Counting(self._iterations)

    def rate(self, seconds: float) -> float:
        with self.counting() as counting:
            time.sleep(seconds)
        return counting.rate


class _Counting:
    """Iterations a second, within the block."""

    def __init__(self, iterations: Any) -> None:
        self._iterations = iterations
        self.rate = 0.0

    def __enter__(self) -> _Counting:
        self._begun, self._from = time.perf_counter(), self._iterations.value
        return self

    def __exit__(self, *exception: object) -> None:
        took = time.perf_counter() - self._begun
        self.rate = (self._iterations.value - self._from) / took


def _train(address: str, iterations: Any, goes: Any) -> None:
    work = make("mlp")
    torch.set_num_threads(1)
    with laneway.connect(address) as service:
        step = laneway.train_step(
            work.model, work.loss_fn, work.optimizer, service=service, name="training"
        )
        batch = work.batch(0)
        while True:
            step(*batch)
            iterations.value += 1
            goes.wait()
