"""Measures what `laneway calibrate` writes down: a service of its own trains each model alone and
each two beside each other, changes turns and moves images. What the core decided and heard comes
from the service's trace."""

from __future__ import annotations

import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import Any

from laneway import errors
from laneway.jobs.service import Service, connect
from laneway.jobs.step import TrainStep
from laneway.jobs.training import train_step
from laneway.native.launch import service_environment
from laneway.native.programs import program

# A model, its loss function, its optimizer, and the inputs of an iteration.
Maker = Callable[[], tuple[Any, Any, Any, Sequence[Any]]]

IN_FLIGHT = 4
QUANTUM_S = 0.02
TURNS_S = 2.0
LEAST_ITERATIONS = 8
MOVES = 5  # of the largest image, each way
END_S = 30.0

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MOVE = re.compile(
    r"\s*\+?(\d+\.\d+)\s+(?:decided|heard) "
    r"(PlaceImage|ImagePlaced|EvictImage|ImageLeft) (job \d+)(?: '.*')?"
    r"(?:: ([\d.]+) (\w+) at \d+(?:.*beginning with ([\d.]+) (\w+) at)?|$)"
)


@dataclass(frozen=True)
class Progress:
    """Of a step: when results came, by the process's clock."""

    ends: list[float]

    def iteration_s(self) -> float:
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)

    def since(self, begin: float) -> Progress:
        return Progress([one for one in self.ends if one >= begin])


def measure(
    makers: Mapping[str, Maker], seconds: float, pool: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Times in nanoseconds and rates, as docs/simulate.md has them. `seconds`: for each model, and
    each two. Raises what the models and the service raise."""
    with tempfile.TemporaryDirectory(prefix="laneway-calibrate-") as name:
        folder = pathlib.Path(name)
        alone, firsts, sizes = _alone(makers, seconds, folder, pool, say)
        say("copies of images, and the gap between turns")
        copies = _copies(makers, folder, pool)
        gap_s = _turn_gap(makers, folder, pool)
        pairs = _pairs(makers, seconds, folder, pool, say)
        # The machine may have been slower or faster at first.
        again, _, _ = _alone(makers, seconds / 2, folder, pool, say)
    coming = {one: size / copies["PlaceImage"] for one, (size, _) in sizes.items()}
    start_up_s = statistics.median(
        max(firsts[one] - alone[one] - coming[one] - gap_s, 0.0) for one in makers
    )
    return {
        "turn_gap_ns": _ns(gap_s),
        "start_up_ns": _ns(start_up_s),
        "copy_in_bytes_per_s": round(copies["PlaceImage"]),
        "copy_out_bytes_per_s": round(copies["EvictImage"]),
        "models": {
            one: {
                "iteration_ns": _ns(alone[one]),
                "iteration_again_ns": _ns(again[one]),
                "persistent_bytes": sizes[one][0],
                "ephemeral_bytes": sizes[one][1],
            }
            for one in makers
        },
        "pairs": [
            {"a": a, "b": b, "a_iteration_ns": _ns(one), "b_iteration_ns": _ns(other)}
            for (a, b), (one, other) in pairs.items()
        ],
    }


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


@contextmanager
def _service(folder: pathlib.Path, pool: str | None, *words: str) -> Iterator[Service]:
    """A lanewayd of its own."""
    lanewayd = program("lanewayd")
    if lanewayd is None:
        raise errors.ServiceUnavailable("there is no program lanewayd: build it with ./dev build")
    address = f"ipc://{folder}/laneway.sock"
    command = [str(lanewayd), "--address", address, "--standby", "0", "--log-level", "warning"]
    command += [*(("--pool", pool) if pool else ()), *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=service_environment()
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        if "ready" not in line:
            raise errors.ServiceUnavailable(f"lanewayd ended with {process.wait()}: {line.strip()}")
        with connect(address) as service:
            yield service
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout
        process.stdout.close()


@contextmanager
def _step(service: Service, maker: Maker, name: str) -> Iterator[tuple[TrainStep, Sequence[Any]]]:
    """Captured, and not offered."""
    model, loss_fn, optimizer, inputs = maker()
    step = train_step(
        model, loss_fn, optimizer, service=service, name=name, sync="manual", random="own"
    )
    with step:
        step.capture(*inputs)
        yield step, inputs


def _train(
    step: TrainStep, inputs: Sequence[Any], until: Callable[[list[float]], bool]
) -> Progress:
    """Keeps some iterations in flight until `until` says of the times of results that they are
    enough."""
    flying: deque[Any] = deque()
    ends: list[float] = []
    while not until(ends):
        while len(flying) < IN_FLIGHT:
            flying.append(step.submit(*inputs))
        flying.popleft().result()
        ends.append(time.perf_counter())
    while flying:
        flying.popleft().result()
    return Progress(ends)


def _for(seconds: float) -> Callable[[list[float]], bool]:
    end = time.perf_counter() + seconds
    return lambda ends: len(ends) >= LEAST_ITERATIONS and time.perf_counter() >= end


def _alone(
    makers: Mapping[str, Maker],
    seconds: float,
    folder: pathlib.Path,
    pool: str | None,
    say: Callable[[str], None],
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[int, int]]]:
    """Of each model seconds of an iteration, and from the offer to the first result; and bytes of
    its image and region."""
    iterations, firsts, sizes = {}, {}, {}
    with _service(folder, pool, "--lanes", "1") as service:
        for name, maker in makers.items():
            say(f"{name} alone")
            with _step(service, maker, name) as (step, inputs):
                offered = time.perf_counter()
                step.submit(*inputs).result()
                firsts[name] = time.perf_counter() - offered
                iterations[name] = _train(step, inputs, _for(seconds)).iteration_s()
                lines = service.status()["jobs"]
                sizes[name] = next(
                    (line["persistent_bytes"], line["ephemeral_bytes"])
                    for line in lines
                    if line["name"] == name
                )
    return iterations, firsts, sizes


def _pairs(
    makers: Mapping[str, Maker],
    seconds: float,
    folder: pathlib.Path,
    pool: str | None,
    say: Callable[[str], None],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds of an iteration of each of two that compute beside each other, in two lanes."""
    found = {}
    with _service(folder, pool, "--lanes", "2") as service:
        for a, b in combinations_with_replacement(makers, 2):
            say(f"{a} beside {b}")
            with _step(service, makers[a], "one") as one, _step(service, makers[b], "two") as two:
                found[a, b] = _beside(one, two, seconds)
    return found


def _beside(one: tuple[Any, Any], two: tuple[Any, Any], seconds: float) -> tuple[float, float]:
    for step, inputs in (one, two):  # both are there before any time counts
        step.submit(*inputs).result()
    progress: dict[int, Progress] = {}
    failed: list[BaseException] = []
    seen: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds

    def enough(number: int, ends: list[float]) -> bool:
        seen[number] = ends
        if failed or not all(seen):
            return bool(failed)
        begin = max(ends[0] for ends in seen)  # what counts is what both did from then on
        fewest = min(len(ends) - bisect_left(ends, begin) for ends in seen)
        return time.perf_counter() >= end and fewest >= LEAST_ITERATIONS

    def run(number: int, step: TrainStep, inputs: Sequence[Any]) -> None:
        try:
            progress[number] = _train(step, inputs, lambda ends: enough(number, ends))
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=(number, *which))
        for number, which in enumerate((one, two))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    begin = max(one.ends[0] for one in progress.values())
    both = [progress[number].since(begin).iteration_s() for number in (0, 1)]
    return both[0], both[1]


def _copies(
    makers: Mapping[str, Maker], folder: pathlib.Path, pool: str | None
) -> dict[str, float]:
    """Bytes a second by the decision, PlaceImage and EvictImage, of the largest image."""
    trace = folder / "copies.trace"
    with (
        _service(folder, pool, "--lanes", "1", "--trace", str(trace)) as service,
        ExitStack() as all_,
    ):
        steps = {
            name: all_.enter_context(_step(service, maker, name)) for name, maker in makers.items()
        }
        for step, inputs in steps.values():
            step.submit(*inputs).result()
        lines = service.status()["jobs"]
        name = max(lines, key=lambda line: line["persistent_bytes"])["name"]
        step, inputs = steps[name]
        for _ in range(MOVES):
            service.unload(name)
            service.load(name)
            step.submit(*inputs).result()  # it differs from its copy again
    return rates_of(_trace(trace).splitlines(), LEAST_BYTES)


LEAST_BYTES = 1 << 16  # smaller images say nothing of a rate


def rates_of(lines: Sequence[str], least: int) -> dict[str, float]:
    """Bytes a second of the copies that a trace has, of images of at least so many bytes: the
    median of each way. Raises ServiceUnavailable where it has none."""
    asked: dict[str, tuple[str, float, float]] = {}
    rates: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        found = _MOVE.match(line)
        if found is None:
            continue
        at, what, job = float(found[1]), found[2], found[3]
        if found[4]:
            size = float(found[4]) * _UNITS[found[5]]
            size -= float(found[6]) * _UNITS[found[7]] if found[6] else 0
            asked[job] = (what, at, size)
        elif job in asked:
            way, since, size = asked.pop(job)
            if size >= least and at > since:
                rates[way].append(size / (at - since))
    for way in ("PlaceImage", "EvictImage"):
        if not rates[way]:
            raise errors.ServiceUnavailable(
                f"no image was copied ({way}): the models' images are too small, or the service "
                "has no room outside its pool; give a larger model"
            )
    return {way: statistics.median(found) for way, found in rates.items()}


def _turn_gap(makers: Mapping[str, Maker], folder: pathlib.Path, pool: str | None) -> float:
    """Seconds from the last iteration of a turn to the first one of the next, of two jobs."""
    trace, readable = folder / "turns.trace", folder / "turns.json"
    words = ("--lanes", "1", "--policy", f"fair:quantum_s={QUANTUM_S}", "--trace", str(trace))
    maker = next(iter(makers.values()))
    with (
        _service(folder, pool, *words) as service,
        _step(service, maker, "one") as one,
        _step(service, maker, "two") as two,
    ):
        _beside(one, two, TURNS_S)
    _trace(trace, "--chrome", str(readable))
    entries = json.loads(readable.read_text())["traceEvents"]
    gaps = gaps_of([entry for entry in entries if entry.get("cat") == "iteration"])
    if not gaps:
        raise errors.ServiceUnavailable("two jobs took no turns: their iterations are too long")
    return max(statistics.median(gaps), 0.0)


def gaps_of(iterations: Sequence[dict[str, Any]]) -> list[float]:
    """Seconds from the end of each iteration to the next one's begin, where that is another
    job's."""
    runs = sorted(iterations, key=lambda one: one["ts"])
    return [
        (after["ts"] - before["ts"] - before["dur"]) / 1e6
        for before, after in pairwise(runs)
        if after["args"]["job"] != before["args"]["job"]
    ]


def _trace(trace: pathlib.Path, *words: str) -> str:
    reader = program("laneway-trace")
    if reader is None:
        raise errors.ServiceUnavailable("there is no laneway-trace: build it with ./dev build")
    command = [str(reader), *words, "--", str(trace)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
