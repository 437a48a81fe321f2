"""gateway: what does `laneway serve` add to a request, and what do batches gain?

One caller at a time asks for one row of an mlp, as JSON and as bytes over HTTP, and over gRPC;
beside it, interleaved, the same bytes go to an empty echo of the same servers
(bench/gateway_echo.py), and the same row to the service from a client of its own, directly. The
gateway is held to the sum of both. Then 16 callers ask at once, over HTTP and as bytes: the
gateway's requests a second over the echo's, and those of the same model with
max_batch 8 over max_batch 1. Callers are threads of this process, which takes a part of the
machine's cores from what is measured, of both sides alike."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

import laneway

from . import stats
from .daemon import Daemon
from .gateway_parts import Caller, Program, RpcCaller, write_model
from .harness import Calibration, Options, operator_threads, paired_trials, progress
from .report import Report, at_least, at_most

CALLERS = 16
MOST_OVER_BOTH = 1.3
LEAST_OF_ECHO = 0.5
LEAST_BY_BATCH = 2.0
TOML = """
[[input]]
name = "x"
datatype = "FP32"
shape = [-1, 64]
[[output]]
name = "y"
datatype = "FP32"
shape = [-1, 10]
"""
CODE = """
import torch
from torch import nn
def load():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
"""
REQUESTS, QUICK_REQUESTS = 200, 30  # of a trial
AT_ONCE, QUICK_AT_ONCE = 100, 20  # of a caller


def cases() -> list[str]:
    return ["json", "binary", "grpc", "callers", "batch"]


def run(options: Options) -> Report:
    report, calibration = Report("gateway"), Calibration()
    trials = min(options.trials, 5) if options.quick else options.trials
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder, Daemon() as daemon:
        words = ["laneway.cli", "serve", "--address", daemon.address, "--listen", "127.0.0.1:0"]
        words += ["--grpc", "127.0.0.1:0"]
        words += ["--models", str(_models(Path(folder))), "--scratch", f"{folder}/scratch"]
        with Program(words) as served, Program(["bench.gateway_echo"]) as echo:
            for case in ("json", "binary", "grpc"):
                if options.wants(case):
                    progress(f"gateway: {case}")
                    calibration.sample()
                    count = QUICK_REQUESTS if options.quick else REQUESTS
                    _one_at_a_time(report, case, served, echo, daemon.address, trials, count)
            count = QUICK_AT_ONCE if options.quick else AT_ONCE
            for case in ("callers", "batch"):
                if options.wants(case):
                    progress(f"gateway: {case}")
                    calibration.sample()
                    _at_once(report, case, served, echo, trials, count)
    calibration.add_to(report)
    return report


def _models(folder: Path) -> Path:
    models = folder / "models"
    for name, more in (("mlp", ""), ("batched", "max_batch = 8\n")):
        write_model(models, name, more + TOML, CODE)
    return models


def _caller(program: Program, case: str) -> Caller | RpcCaller:
    if case == "grpc":
        return RpcCaller(program.rpc, "mlp", {"x": _input()})
    return Caller(program.host, "mlp", {"x": _input()}, binary=case == "binary")


def _input() -> torch.Tensor:
    return torch.linspace(-1, 1, 64).reshape(1, 64)


def _milliseconds(call: Callable[[], object], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - start) / 1e6)
    return taken


def _one_at_a_time(
    report: Report,
    case: str,
    served: Program,
    echo: Program,
    address: str,
    trials: int,
    count: int,
) -> None:
    callers = {"gateway": _caller(served, case), "echo": _caller(echo, case)}
    every: dict[str, list[float]] = {"gateway": [], "echo": [], "direct": []}
    space: dict[str, Callable[[], torch.nn.Module]] = {}
    exec(CODE, space)
    with operator_threads(1), laneway.connect(address) as service:
        predict, x = laneway.inference(space["load"](), service=service, sync="manual"), _input()
        calls: dict[str, Callable[[], object]] = {name: c.ask for name, c in callers.items()}
        calls["direct"] = lambda: predict(x)
        if case != "json" and not callers["gateway"].ask().endswith(predict(x).numpy().tobytes()):
            raise RuntimeError("the gateway's answer has other bits than the service's")
        for call in calls.values():
            _milliseconds(call, count)  # loads, connects, warms up

        def trial(name: str) -> Callable[[], float]:
            def measure() -> float:
                taken = _milliseconds(calls[name], count)
                every[name] += taken
                return stats.median(taken)

            return measure

        paired_trials({name: trial(name) for name in calls}, trials)
    for caller in callers.values():
        caller.close()
    for q, metric in ((50, "p50"), (99, "p99")):
        found = {name: stats.percentile(taken, q) for name, taken in every.items()}
        for name, value in found.items():
            report.add(case, f"{name}_{metric}_ms", value, "ms", samples=every[name])
        ratio = found["gateway"] / (found["echo"] + found["direct"])
        report.add(case, f"{metric}_over_both", ratio, "x", at_most(MOST_OVER_BOTH))


def _at_once(
    report: Report, case: str, served: Program, echo: Program, trials: int, count: int
) -> None:
    sides = {"one": (served.host, "mlp"), "other": (echo.host, "mlp")}
    if case == "batch":
        sides = {"one": (served.host, "batched"), "other": (served.host, "mlp")}

    def rate(side: str) -> Callable[[], float]:
        host, model = sides[side]
        return lambda: _per_second(host, model, count)

    for side in sides:
        rate(side)()
    found = paired_trials({side: rate(side) for side in sides}, trials)
    ratio = stats.median([a / b for a, b in zip(found["one"], found["other"])])
    names = ("batched", "alone") if case == "batch" else ("gateway", "echo")
    for name, side in zip(names, sides):
        value = stats.median(found[side])
        report.add(case, f"{name}_per_s", value, "1/s", samples=found[side])
    target = LEAST_BY_BATCH if case == "batch" else LEAST_OF_ECHO
    report.add(case, "ratio", ratio, "x", at_least(target), note=f"{CALLERS} callers, binary")


def _per_second(host: str, model: str, count: int) -> float:
    callers = [Caller(host, model, {"x": _input()}) for _ in range(CALLERS)]
    begin = threading.Barrier(CALLERS + 1)
    failed: list[BaseException] = []

    def work(caller: Caller) -> None:
        begin.wait()
        try:
            for _ in range(count):
                caller.ask()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - start
    for caller in callers:
        caller.close()
    if failed:
        raise failed[0]
    return CALLERS * count / taken
