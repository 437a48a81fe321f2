"""consolidation: can one device hold 42 inference models, and what does that cost a request?

14 kinds (KINDS) with 3 sets of weights each are inferences of batch 1, of one operator thread, in
one lanewayd with one lane, under the policy fifo by request. The pool has the images of all and the
largest need of one, and nothing more: whoever does not fit is missed in `resident`. That need is
what is predicted before a model ran, or what its first iterations took, where this machine's
kernels want workspaces that nobody can predict; both are reported. Requests come as a Poisson
process for models drawn uniformly, at 10 and 30 % of what the lane can serve (open loop); a latency
runs from the scheduled arrival until the answer can be read. `slowdown_p99` is the p99 over that of
an ideal first-come queue with the same arrivals and, as times of service, those that were measured
in the same run with nothing else there: one request at a time, for models in a drawn order, with
the pauses of this load between them. `slowdown_p99_warm` is the same with times that each model
takes when it is asked again and again: its weights are in the caches then, and the core was not
asleep. Every answer is compared with eager's. The arrivals are in the samples.

`memory`: PSS of the service's processes, and of as many plain PyTorch processes as there are models
(one model each), and as there are kinds (three models each)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import laneway

from . import stats
from .daemon import Daemon
from .harness import (
    Calibration,
    Options,
    operator_threads,
    progress,
    single_thread_environment,
)
from .models import make
from .open_loop import Arrival, drive, ideal_latencies, poisson, rate_for
from .report import ROOT, Report, at_least, at_most
from .shared_memory import family, pss_of

KINDS = (
    *("mlp", "cnn", "lstm", "gpt", "gpt6", "bert", "resnet18", "vgg11", "densenet121"),
    *("mobilenet_v3_small", "alexnet", "squeezenet1_0", "shufflenet_v2_x0_5", "mnasnet0_5"),
)
QUICK_KINDS = ("cnn", "gpt")
EACH = 3  # sets of weights
LOADS = (0.1, 0.3)
RUNS = 3
INPUTS = 4  # different ones of each model
WARM = 60  # times of each model, one after the other
DRAWN = 20  # and in a drawn order
QUICK_WARM, QUICK_DRAWN = 15, 5
DURATION_S = 120.0
PATIENCE_S = 30.0  # with a model that finds no room
QUICK_DURATION_S = 3.0
WARM_UP = 5
POLICY = "fifo:by=request"
ALIGNMENT = 64  # of an image in the pool
SEED = 42
P99 = at_most(1.1)


def cases() -> list[str]:
    return ["load_10", "load_30", "memory"]


def run(options: Options) -> Report:
    with operator_threads(options.threads):
        return _run(options)


def _run(options: Options) -> Report:
    report = Report("consolidation")
    kinds = QUICK_KINDS if options.quick else KINDS
    loads = [load for load in LOADS if options.wants(case_of(load))]
    wants_memory = options.wants("memory")
    if not loads and not wants_memory:
        return report
    models = [Model.made(kind, seed) for kind in kinds for seed in range(EACH)]
    needs = [needs_of(model) for model in models]
    pool = pool_bytes(needs)
    words = ("--standby", "0", "--lanes", "1", "--policy", POLICY, "--staging", "0")
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(pool, words=words))
        service = stack.enter_context(laneway.connect(daemon.address))
        fits: list[str] = []
        predicts = [
            stack.enter_context(
                laneway.inference(model.module, service=service, name=model.name, sync="manual")
            )
            for model in models
        ]
        for predict, model in zip(predicts, models, strict=True):
            progress(f"consolidation: {model.name}")
            with suppress(TimeoutError):
                predict.submit(*model.inputs[0]).result(timeout=PATIENCE_S)
                fits.append(model.name)
            if model.name not in fits:
                continue
            for _ in range(WARM_UP):
                predict(*model.inputs[0])
        if len(fits) < len(models):
            loads = []  # requests for the others would wait for ever
        lines = [line for line in service.status()["jobs"] if line["image"]["pool_bytes"] > 0]
        report.add("memory", "resident", float(len(lines)), "models", at_least(len(models)),
                   note=f"kinds: {', '.join(kinds)}; pool {pool} bytes")  # fmt: skip
        for which in ("predicted", "measured"):
            largest = max(getattr(need, which) for need in needs)
            report.add("memory", f"largest_need_{which}", largest / 2**20, "MiB")
        if loads:
            _measure(list(zip(predicts, models, strict=True)), loads, options.quick, report)
        if wants_memory:
            laneway_pss = pss_of(family(daemon.process.pid))
            report.add("memory", "service_pss", laneway_pss / 2**20, "MiB")
    if wants_memory:
        for count in (len(models), len(kinds)):
            report.add("memory", f"{count}_processes_pss", processes_pss(kinds, count) / 2**20,
                       "MiB")  # fmt: skip
    return report


def case_of(load: float) -> str:
    return f"load_{round(100 * load)}"


@dataclass(frozen=True)
class Model:
    """One set of weights, what it is asked, and what eager answers."""

    name: str
    module: nn.Module
    inputs: list[tuple[torch.Tensor, ...]]
    expected: list[torch.Tensor]

    @staticmethod
    @torch.no_grad()
    def made(kind: str, seed: int) -> Model:
        work = make(kind, seed)
        module = work.model.eval()
        inputs = [tuple(t[:1].clone() for t in work.batch(i)[:-1]) for i in range(INPUTS)]
        return Model(f"{kind}-{seed}", module, inputs, [module(*given) for given in inputs])


@dataclass(frozen=True)
class Needs:
    """As the service says of a job; `predicted`: before its first iteration."""

    persistent: int
    predicted: int
    measured: int  # after some iterations


def needs_of(model: Model) -> Needs:
    with (
        laneway.embedded("1GiB", staging=0) as service,
        laneway.inference(model.module, service=service, name="one", sync="manual") as predict,
    ):
        predict.prepare_many([model.inputs[0]]).result()
        before = service.status()["jobs"][0]
        for _ in range(WARM_UP):
            predict(*model.inputs[0])
        after = service.status()["jobs"][0]
        return Needs(
            before["persistent_bytes"], before["ephemeral_bytes"], after["ephemeral_bytes"]
        )


def pool_bytes(needs: list[Needs]) -> int:
    """Every image, and the largest lane that anybody needs."""

    def rounded(count: int) -> int:
        return -(-count // ALIGNMENT) * ALIGNMENT

    images = sum(rounded(need.persistent) for need in needs)
    return images + rounded(max(max(need.predicted, need.measured) for need in needs))


def _measure(
    jobs: list[tuple[Any, Model]], loads: list[float], quick: bool, report: Report
) -> None:
    calibration = Calibration()
    duration_s = QUICK_DURATION_S if quick else DURATION_S
    found: dict[float, list[Trial]] = {load: [] for load in loads}
    for number in range(1 if quick else RUNS):
        progress(f"consolidation: run {number + 1}, each model again and again")
        warm_s = [_warm(job, QUICK_WARM if quick else WARM) for job in jobs]
        for load in loads:
            calibration.sample()
            seed = SEED + 100 * number + round(100 * load)
            rate = rate_for(load, warm_s)
            progress(f"consolidation: run {number + 1}, load {load:g}: models in a drawn order")
            drawn_s = _drawn(jobs, QUICK_DRAWN if quick else DRAWN, (1 - load) / rate, seed)
            progress(f"consolidation: run {number + 1}, load {load:g}: {rate:.1f} requests/s")
            arrivals = poisson(rate, duration_s, len(jobs), seed)
            latencies, answers = drive(arrivals, lambda arrival: _submit(jobs, arrival))
            wrong = sum(
                not torch.equal(given, jobs[a.model][1].expected[a.number % INPUTS])
                for a, given in zip(arrivals, answers, strict=True)
            )
            ideal, warm = (ideal_latencies(arrivals, times) for times in (drawn_s, warm_s))
            found[load].append(Trial(arrivals, latencies, ideal, warm, wrong))
    for load, trials in found.items():
        report_trials(case_of(load), trials, report)
    calibration.add_to(report)


def _submit(jobs: list[tuple[Any, Model]], arrival: Arrival) -> Any:
    predict, model = jobs[arrival.model]
    return predict.submit(*model.inputs[arrival.number % INPUTS])


def _warm(job: tuple[Any, Model], times: int) -> list[float]:
    """Seconds of each of so many requests, the service having nothing else to do."""
    return [_alone(job, number, 0.001) for number in range(times)]


def _drawn(
    jobs: list[tuple[Any, Model]], times: int, pause_s: float, seed: int
) -> list[list[float]]:
    """The same of every model, one request at a time, so many rounds in a drawn order."""
    chance = random.Random(seed)
    took: list[list[float]] = [[] for _ in jobs]
    for number in range(times):
        for which in chance.sample(range(len(jobs)), len(jobs)):
            took[which].append(_alone(jobs[which], number, pause_s))
    return took


def _alone(job: tuple[Any, Model], number: int, pause_s: float) -> float:
    predict, model = job
    inputs = model.inputs[number % INPUTS]
    time.sleep(pause_s)  # as in the open loop the thread has slept before
    begun = time.perf_counter()
    predict.submit(*inputs).result()
    return time.perf_counter() - begun


@dataclass(frozen=True)
class Trial:
    arrivals: list[Arrival]
    latencies: list[float]
    ideal: list[float]
    warm: list[float]  # ideal, by times of models that are asked again and again
    wrong: int


def report_trials(case: str, trials: list[Trial], report: Report) -> None:
    """Medians over the runs; latencies and arrivals of each run as samples."""
    for metric, quantile in (("p50", 50), ("p99", 99)):
        ours = [stats.percentile(trial.latencies, quantile) for trial in trials]
        ideal = [stats.percentile(trial.ideal, quantile) for trial in trials]
        report.add(case, f"{metric}_ms", stats.median(ours) * 1e3, "ms",
                   samples=[one * 1e3 for one in ours])  # fmt: skip
        report.add(case, f"ideal_{metric}_ms", stats.median(ideal) * 1e3, "ms",
                   samples=[one * 1e3 for one in ideal])  # fmt: skip
        warm = [stats.percentile(trial.warm, quantile) for trial in trials]
        report.add(case, f"warm_{metric}_ms", stats.median(warm) * 1e3, "ms",
                   samples=[one * 1e3 for one in warm])  # fmt: skip
        for name, bound in (("", ideal), ("_warm", warm)):
            ratios = [a / b for a, b in zip(ours, bound, strict=True)]
            report.add(case, f"slowdown_{metric}{name}", stats.median(ratios), "ratio",
                       P99 if metric == "p99" else None, samples=ratios)  # fmt: skip
    count = sum(len(trial.latencies) for trial in trials)
    report.add(case, "requests", float(count), "requests",
               samples=[len(trial.latencies) for trial in trials])  # fmt: skip
    report.add(case, "wrong_answers", float(sum(trial.wrong for trial in trials)), "answers",
               at_most(0.0))  # fmt: skip
    for number, trial in enumerate(trials):
        report.samples[f"{case}/run_{number}/arrivals_s"] = [a.at_s for a in trial.arrivals]
        report.samples[f"{case}/run_{number}/latencies_ms"] = [s * 1e3 for s in trial.latencies]


def processes_pss(kinds: tuple[str, ...], count: int) -> int:
    """Of so many plain processes, which share the models evenly, while all of them are there."""
    names = [f"{kind}-{seed}" for kind in kinds for seed in range(EACH)]
    progress(f"consolidation: {count} plain processes")
    processes: list[subprocess.Popen[str]] = []
    try:
        for number in range(count):
            share = names[number::count]
            command = [sys.executable, "-m", "bench.consolidation_probe", *share]
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | single_thread_environment(1),
            )
            processes.append(process)
        for process in processes:
            assert process.stdout
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"a plain process ended with {process.wait()}")
        return pss_of(process.pid for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
