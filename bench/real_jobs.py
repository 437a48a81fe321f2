"""The jobs of the benches policies_real and fidelity: the 100 trainings of
traces/salus_shape_100.csv, 150 times faster, as trainings of five of the benches' models (row mod
5), run by a service, simulated, and in plain PyTorch.

A job trains so many iterations that it takes the row's length on the machine alone. What a service
runs was captured before and is offered when it arrives: a thread for each job, four submissions in
flight."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

import laneway
from laneway.cli import calibrate, micro_benches

from .daemon import Daemon
from .harness import operator_threads, progress, single_thread_environment
from .models import make
from .models.workload import Workload
from .report import ROOT
from .simulate import TRACES
from .state import digest, training_state

MODELS = ("lstm", "cnn", "gpt", "mobilenet_v3_small", "resnet18")
SALUS = TRACES / "salus_shape_100.csv"
FASTER = 150
BATCHES = 8  # of a job, in turn
IN_FLIGHT = 4
POOL = 1 << 30  # of the service that is calibrated with
STORE = 4 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Job:
    number: int
    model: str
    at_s: float
    iterations: int


@dataclass(frozen=True)
class Ran:
    """What became of the jobs of a run, in their order."""

    jct_s: list[float]
    makespan_s: float
    iterations: list[int]
    states: list[str]


def makers() -> dict[str, Any]:
    """As `laneway calibrate --models` takes them."""

    def maker(name: str) -> Any:
        def made() -> tuple[Any, ...]:
            work = make(name)
            return work.model, work.loss_fn, work.optimizer, work.batch(0)

        return made

    return {name: maker(name) for name in MODELS}


def measure_here(folder: Path, seconds: float) -> tuple[Path, dict[str, Any]]:
    """A calibration of this machine, now, and its path."""
    with operator_threads(1):
        found = micro_benches.measure(makers(), seconds, f"{POOL >> 20}MiB", progress)
    path = folder / "calibration.json"
    calibrate.write(path, found | {"threads": 1})
    return path, found


def jobs_of(
    calibration: dict[str, Any], most: int | None = None, faster: float = FASTER
) -> list[Job]:
    """The trace's first jobs, at most so many."""
    jobs = []
    with SALUS.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            model = MODELS[number % len(MODELS)]
            iteration_s = calibration["models"][model]["iteration_ns"] / 1e9
            iterations = max(2, round(float(row["duration_s"]) / faster / iteration_s))
            jobs.append(Job(number, model, float(row["submit_time_s"]) / faster, iterations))
    return jobs[:most]


def work_of(job: Job, seed: int) -> tuple[Workload, list[Any]]:
    work = make(job.model, seed=1000 * seed + job.number)
    return work, [work.batch(i) for i in range(min(BATCHES, job.iterations))]


def draws_of(job: Job, seed: int) -> int:
    """The seed of what the model itself draws."""
    return 1000 * seed + job.number + 1


class Live:
    """The jobs on a service of their own, captured."""

    def __init__(self, jobs: Sequence[Job], seed: int, words: Sequence[str], pool: int) -> None:
        self._stack = ExitStack()
        self._jobs = jobs
        self._steps: list[Any] = []
        self._batches: list[list[Any]] = []
        with ExitStack() as stack:
            daemon = stack.enter_context(
                Daemon(pool, words=("--standby", "0", "--staging", str(STORE), *words))
            )
            self._service = stack.enter_context(laneway.connect(daemon.address))
            alike: dict[str, Any] = {}
            for job in jobs:
                work, batches = work_of(job, seed)
                torch.manual_seed(draws_of(job, seed))
                step = laneway.train_step(
                    work.model, work.loss_fn, work.optimizer, service=self._service,
                    name=f"{job.model}-{job.number}", total_iterations=job.iterations,
                    random="own", sync="manual", like=alike.get(job.model),
                )  # fmt: skip
                stack.callback(step.close)
                step.capture(*batches[0])
                alike.setdefault(job.model, step)
                self._steps.append(step)
                self._batches.append(batches)
            self._stack = stack.pop_all()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self) -> Ran:
        ends = [0.0] * len(self._jobs)
        done = [0] * len(self._jobs)
        states = [""] * len(self._jobs)
        failed: list[BaseException] = []
        gate = threading.Barrier(len(self._jobs) + 1)
        interrupted = threading.Event()
        began = [0.0]

        def serve(place: int) -> None:
            job, step, batches = self._jobs[place], self._steps[place], self._batches[place]
            gate.wait()
            try:
                if interrupted.wait(max(0.0, began[0] + job.at_s - time.perf_counter())):
                    return
                done[place] = train(step, batches, job.iterations)
                ends[place] = time.perf_counter() - began[0]
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=serve, args=(place,)) for place in range(len(ends))]
        for thread in threads:
            thread.start()
        began[0] = time.perf_counter()
        gate.wait()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            interrupted.set()  # and whose iterations run gets an error when its step is closed
            raise
        if failed:
            raise failed[0]
        for place, step in enumerate(self._steps):
            state = step.state_dict()
            states[place] = digest(training_state(state["model"], state["optimizer"]))
        first = self._jobs[0].at_s
        jct = [end - job.at_s for end, job in zip(ends, self._jobs, strict=True)]
        return Ran(jct, max(ends) - first, done, states)


def train(step: Any, batches: Sequence[Any], iterations: int) -> int:
    """How many were done."""
    flying: deque[Any] = deque()
    done = submitted = 0
    while done < iterations:
        while submitted < iterations and len(flying) < IN_FLIGHT:
            flying.append(step.submit(*batches[submitted % len(batches)]))
            submitted += 1
        flying.popleft().result()
        done += 1
    return done


def train_plain(job: Job, work: Workload, batches: Sequence[Any], seed: int) -> str:
    """The digest of the state that the job ends with in eager PyTorch."""
    assert work.loss_fn
    torch.manual_seed(draws_of(job, seed))
    for iteration in range(job.iterations):
        *inputs, target = batches[iteration % len(batches)]
        work.optimizer.zero_grad()
        work.loss_fn(work.model(*inputs), target).backward()
        work.optimizer.step()
    return digest(training_state(work.model.state_dict(), work.optimizer.state_dict()))


def pool_bytes(jobs: Sequence[Job], calibration: dict[str, Any], lanes: int, part: float) -> int:
    """Room for that part of all images, and for the largest region in each lane."""
    models = calibration["models"]
    images = sum(models[job.model]["persistent_bytes"] for job in jobs)
    region = max(models[name]["ephemeral_bytes"] for name in MODELS)
    image = max(models[name]["persistent_bytes"] for name in MODELS)
    room = max(part * images, lanes * image) + lanes * region
    return (int(1.05 * room) // MIB + 16) * MIB


def write_trace(jobs: Sequence[Job], calibration: dict[str, Any], path: Path) -> None:
    """As laneway-simulate reads it."""
    header = "job_id,model_name,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb"
    lines = []
    for job in jobs:
        model = calibration["models"][job.model]
        lines.append(
            f"{job.number},{job.model},{job.at_s:.9f},{job.iterations},"
            f"{model['iteration_ns'] / 1e6:.6f},{model['persistent_bytes'] / MIB:.6f},"
            f"{model['ephemeral_bytes'] / MIB:.6f}"
        )
    path.write_text("\n".join([header, *lines]) + "\n")


def load() -> str:
    """What else the machine did, for notes."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def spread(values: Sequence[float]) -> float:
    """Of repeats: the largest less the smallest, over the median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


class Plain:
    """The jobs in plain PyTorch: each in a process of its own, forked when it has arrived and fewer
    than `width` others run, with its model and batches made before."""

    def __init__(self, jobs: Sequence[Job], seed: int, width: int, threads: int) -> None:
        self._jobs = jobs
        words = [str(seed), str(width), str(threads), json.dumps([asdict(job) for job in jobs])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.real_jobs", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | single_thread_environment(threads) | _path(),
            start_new_session=True,  # of its own, with all jobs' processes
        )

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode != 0:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self) -> Ran:
        """RuntimeError: a job's process ended without a result."""
        assert self._process.stdout and self._process.stdin
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"plain PyTorch ended with {self._process.wait()}")
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        found = {}
        for line in self._process.stdout:
            one = json.loads(line)
            found[one["number"]] = one
        if len(found) != len(self._jobs) or self._process.wait() != 0:
            raise RuntimeError(f"{len(found)} of {len(self._jobs)} jobs ended in plain PyTorch")
        lines = [found[job.number] for job in self._jobs]
        ends = [line["end"] for line in lines]
        jct = [end - job.at_s for end, job in zip(ends, self._jobs, strict=True)]
        states = [line["state"] for line in lines]
        return Ran(
            jct, max(ends) - self._jobs[0].at_s, [job.iterations for job in self._jobs], states
        )


def _path() -> dict[str, str]:
    return {"PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"}


def main(words: list[str]) -> int:
    """python -m bench.real_jobs SEED WIDTH THREADS JOBS: what Plain starts. JOBS as JSON, in the
    order of their arrival; says "ready", and trains when a line has come. A line of JSON for each
    job that ended."""
    seed, width, threads = (int(word) for word in words[:3])
    jobs = [Job(**one) for one in json.loads(words[3])]
    torch.set_num_threads(1)  # no other thread may be there when a process is forked
    works = [work_of(job, seed) for job in jobs]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    running = failed = 0
    for job, (work, batches) in zip(jobs, works, strict=True):
        time.sleep(max(0.0, began + job.at_s - time.monotonic()))
        while running >= width:
            failed += os.wait()[1] != 0
            running -= 1
        if os.fork() == 0:
            torch.set_num_threads(threads)
            state = train_plain(job, work, batches, seed)
            line = {"number": job.number, "end": time.monotonic() - began, "state": state}
            os.write(1, (json.dumps(line) + "\n").encode())
            os._exit(0)
        running += 1
    for _ in range(running):
        failed += os.wait()[1] != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
