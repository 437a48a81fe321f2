"""preemption: how soon does a more urgent request run beside a training, at what cost?

`interrupt`: a training of one operator thread whose iterations take half a second and more, and
requests of higher priority through the same lanewayd. (With as many operator threads as cores
everybody waits for the operating system's slices of 4 ms, the ring's processes too.) In turns:
`idle` (the training rests) and `interrupt` (a request at a random moment of an iteration), each for
an empty inference of a client in C, for one of some ten milliseconds from Python, and for a round
trip of the ring between two processes, which the operating system has to wake at such a moment too:
the yardstick. `answer_c` is the time from the C client's call to its answer, in such round trips;
the first operator comes before, so it is a bound of its time. `first_operator_python` is the time
from the call of the Python inference to the beginning of its iteration, on the machine's steady
clock, as the trace has it: most of it is the interpreter's, whose memory the training has pushed
out of the caches. The inferences have lanes of their own, so they wait for no operator of the
training; `left_of_operator_us` is the time from the beginning of Python's iteration until the
training was held: what was left of the running operator, and one message to the broker. `run_twice`
counts iterations that were given up. `answer_ratio` is the time of Python's whole answer over that
of `idle`.

`node_test`: an executor's time for nodes that do nothing over that of a loop without the test of
the control word, per node; times the nodes of an iteration, over what the iteration takes."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torchvision

import laneway

from . import models, stats
from .daemon import Daemon, daemon_program
from .harness import (
    Calibration,
    Options,
    find_program,
    interleaved,
    operator_threads,
    progress,
)
from .report import Report, at_most
from .round_trips import RoundTrips, write_empty_graph

BATCH = 48  # of 64x64 images: iterations of half a second and more
WIDTH, LAYERS, QUESTIONS = 2048, 4, 32  # of the urgent inference
TRIALS = 100
QUICK_TRIALS = 12
WARM_UP = 4
VARIANTS = ("idle", "interrupt")
URGENT = 5
ANYWHERE = "-1"
NODE_TRIALS = 200
NODES = 10_000  # of an iteration of laneway-node-test
COSTED = ("mlp", "cnn", "gpt", "resnet18")
FIRST_OPERATOR = at_most(3)
RUN_TWICE = at_most(0)
SHARE = at_most(0.005)
CASES = ("interrupt", "node_test")
HEADER = struct.Struct("<8sIiqqQ")  # service/trace/trace_file.h
ITERATION = re.compile(r"^([+-])(\d+)\.(\d{9}) iteration of job \d+ '(\w+)'.*: (\w+), ", re.M)
HELD = re.compile(r"^([+-])(\d+)\.(\d{9}) heard TurnPaused ", re.M)


def cases() -> list[str]:
    return list(CASES)


def run(options: Options) -> Report:
    report = Report("preemption")
    calibration = Calibration()
    if options.wants("interrupt"):
        progress("preemption: interrupt")
        trials = QUICK_TRIALS if options.quick else TRIALS
        training = torchvision.models.resnet18(num_classes=10)
        batch = torch.randn(BATCH, 3, 64, 64), torch.randint(0, 10, (BATCH,))
        with operator_threads(options.threads):
            _interrupt((training, batch), trials, calibration, report)
    if options.wants("node_test"):
        progress("preemption: node_test")
        _node_test(options, report)
    calibration.add_to(report)
    return report


def _interrupt(
    job: tuple[torch.nn.Module, Any], trials: int, calibration: Calibration, report: Report
) -> None:
    with tempfile.TemporaryDirectory() as folder, RoundTrips(_ring()) as ring:
        trace = Path(folder) / "trace"
        words = ("--standby", "0", "--trace", str(trace))
        graph = Path(folder) / "empty.graph"
        write_empty_graph(graph)
        with (
            Daemon("2GiB", words=words) as daemon,
            laneway.connect(daemon.address) as service,
            RoundTrips(_client(daemon.address, graph)) as client,
        ):
            others = {"c": client, "ring": ring}
            asked, took = measure(service, job, trials, calibration, others)
        began = beginnings(trace)
    report_interrupt(asked, took, began, report)


def _ring() -> list[str]:
    return [str(find_program("laneway-ring-roundtrip")), ANYWHERE, ANYWHERE]


def _client(address: str, graph: Path) -> list[str]:
    program = str(find_program("laneway-client-roundtrip"))
    return [program, address, str(graph), ANYWHERE, "1", str(URGENT)]


def measure(
    service: Any,
    job: tuple[torch.nn.Module, Any],
    trials: int,
    calibration: Calibration,
    others: dict[str, RoundTrips],
) -> tuple[list[tuple[str, int]], dict[str, list[float]]]:
    """When each request of Python's was made, by variant in their order, in nanoseconds; seconds of
    each, and of each round trip of the others, by variant and "_" and their names."""
    model, batch = job
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    step = laneway.train_step(
        model, torch.nn.functional.cross_entropy, optimizer, service=service, name="training",
        sync="manual",
    )  # fmt: skip
    small = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    predict = laneway.inference(
        small.eval(), service=service, name="urgent", priority=URGENT, sync="manual"
    )
    question = torch.randn(QUESTIONS, WIDTH)
    chance = random.Random(0)
    asked: list[tuple[str, int]] = []
    askers = ("python", *others)
    cases = [f"{variant}_{name}" for variant in VARIANTS for name in askers]
    took: dict[str, list[float]] = {case: [] for case in cases}

    def ask(case: str) -> None:
        variant, name = case.split("_")
        if name in others:
            took[case].append(others[name].trial(1)[0] * 1e-9)
            return
        start = time.perf_counter_ns()
        predict(question)
        if case in took:
            took[case].append((time.perf_counter_ns() - start) * 1e-9)
        asked.append((variant, start))

    iteration = 0.0
    for _ in range(WARM_UP):
        ask("warm_python")
        for program in others.values():
            program.trial(WARM_UP)
        start = time.perf_counter()
        step(*batch).item()
        iteration = time.perf_counter() - start
    for order in interleaved(cases, trials):
        calibration.sample()
        for case in order:
            future = step.submit(*batch) if case.startswith("interrupt") else None
            time.sleep(chance.uniform(0.02, 0.8) * iteration)
            ask(case)
            if future is not None:
                future.result()
    predict.close()
    step.close()
    return asked, took


def beginnings(trace: Path) -> dict[str, list[int]]:
    """Nanoseconds on the steady clock at which iterations of `urgent` began and the training was
    held, and those at which iterations were given up."""
    reader = daemon_program().parent / "laneway-trace"
    text = subprocess.run([str(reader), str(trace)], check=True, capture_output=True, text=True)
    with trace.open("rb") as file:
        base = HEADER.unpack(file.read(HEADER.size))[3]
    return parse(text.stdout, base)


def parse(text: str, base_ns: int) -> dict[str, list[int]]:
    def at(sign: str, whole: str, part: str) -> int:
        return base_ns + (-1 if sign == "-" else 1) * (int(whole) * 1_000_000_000 + int(part))

    found: dict[str, list[int]] = {"urgent": [], "held": [], "abandoned": []}
    for *when, name, outcome in ITERATION.findall(text):
        if outcome == "abandoned":
            found["abandoned"].append(at(*when))
        elif name == "urgent":
            found["urgent"].append(at(*when))
    found["held"] = [at(*when) for when in HELD.findall(text)]
    return found


def report_interrupt(
    asked: list[tuple[str, int]],
    took: dict[str, list[float]],
    began: dict[str, list[int]],
    report: Report,
) -> None:
    if len(asked) != len(began["urgent"]):
        raise RuntimeError(f"{len(asked)} requests, {len(began['urgent'])} iterations in the trace")
    for variant in VARIANTS:
        trip_s = stats.median(took[f"{variant}_ring"])
        report.add("interrupt", f"round_trip_{variant}_us", trip_s * 1e6, "us",
                   samples=[s * 1e6 for s in took[f"{variant}_ring"]])  # fmt: skip
        answers = [s / trip_s for s in took[f"{variant}_c"]]
        interval = stats.bootstrap_median(answers)
        target = FIRST_OPERATOR if variant == "interrupt" else None
        report.add("interrupt", f"answer_c_{variant}", interval.high, "round trips", target,
                   samples=answers, median=interval.median)  # fmt: skip
        first = [
            (start - request) * 1e-9 / trip_s
            for (which, request), start in zip(asked, began["urgent"])
            if which == variant
        ]
        interval = stats.bootstrap_median(first)
        report.add("interrupt", f"first_operator_python_{variant}", interval.high, "round trips",
                   samples=first, median=interval.median)  # fmt: skip
    starts = [at for (which, _), at in zip(asked, began["urgent"]) if which == "interrupt"]
    left = [
        (min(after) - start) * 1e-3
        for start, end in zip(starts, [*starts[1:], max([*starts, *began["held"]]) + 1])
        if (after := [held for held in began["held"] if start <= held < end])
    ]
    report.add("interrupt", "held", len(left) / len(starts), "share")
    report.add("interrupt", "left_of_operator_us", stats.median(left) if left else None, "us",
               samples=left, note=None if left else "the training was never held")  # fmt: skip
    ratios = [one / other for one, other in zip(took["interrupt_python"], took["idle_python"])]
    report.add("interrupt", "answer_ratio", stats.median(ratios), "ratio", samples=ratios)
    report.add("interrupt", "run_twice", len(began["abandoned"]), "iterations", RUN_TWICE)


def _node_test(options: Options, report: Report) -> None:
    ways = ("tested", "bare")
    program = str(find_program("laneway-node-test"))
    times: dict[str, list[float]] = {way: [] for way in ways}
    with (
        RoundTrips([program, "tested", "-1"]) as tested,
        RoundTrips([program, "bare", "-1"]) as bare,
    ):
        running = {"tested": tested, "bare": bare}
        for order in interleaved(ways, NODE_TRIALS // (10 if options.quick else 1)):
            for way in order:
                times[way].append(min(running[way].trial(5)))
    costs = [(one - other) / NODES for one, other in zip(times["tested"], times["bare"])]
    cost = stats.bootstrap_median(costs)
    report.add("node_test", "node_ns", cost.high, "ns", samples=costs, median=cost.median)
    for name in COSTED:
        nodes, iteration_s = _iteration(name)
        share = max(cost.high, 0.0) * 1e-9 * nodes / iteration_s
        report.add("node_test", f"{name}_share", share, "share", SHARE, nodes=nodes)


def _iteration(name: str) -> tuple[int, float]:
    """The nodes of the model's step, and the seconds that an iteration takes."""
    work = models.make(name)
    with laneway.embedded(pool=models.pool_for(work)) as service:
        step = laneway.train_step(
            work.model, work.loss_fn, work.optimizer, service=service, sync="manual"
        )
        took = []
        for index in range(20):
            start = time.perf_counter()
            step(*work.batch(index))
            took.append(time.perf_counter() - start)
        nodes = step.report()["graphs"][0]["nodes"]
        step.close()
    return nodes, stats.median(took[5:])
