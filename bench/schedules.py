"""schedules: which way of copying and computing answers a request for a model that is away first?

`MODEL_RATIO` as in `switching`, in one C++ program without the service (switch_schedules.cc): the
same runner, link, copies and waits, so that schedules differ in nothing else. In turns: `ready`,
`whole` (copied, then run), `pageable` (by way of another buffer; on the host there is no pinned
memory, so this is what pageable memory costs here), `per_layer`, `per_slot`, `pipeswitch` (groups
by module, for each a wait for its copy and one message: the released code of PipeSwitch, OSDI 2020,
in C++) and `watermark`, which is what the service does. Each begins with NaN in the image's place,
and each answer is compared with eager's.

`bound` is what no schedule beats that begins to copy with the request, over slots: the most, over
all nodes, of the bytes that are needed up to it at the link's rate and what is computed from it on
in `ready`. `excess` is a schedule's time beyond it, over it (median; the worse end of its 95 %
interval), both of the same round, for the machine's speed changes. `software_ms` is what of a
request's time is neither copying nor computing: its time less the union of both, from the
timestamps. `message_us` is what a message of `pipeswitch` costs the lane that waits for it, to be
set beside a hop of this machine (`latency`) and the 165 us of PipeSwitch's own log. Timestamps of
all trials are in `samples`. A run is begun when `ready` has an interquartile range of at most 5 %,
or after five tries; if it has a larger one over the run, rows of `excess` say so and hold no
target.
`ready`, `pipeswitch` and `watermark` run in every round, the others in 40."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import stats
from .harness import (
    Calibration,
    Options,
    find_program,
    interleaved,
    operator_threads,
    progress,
)
from .harness import single_thread_environment as one_thread
from .job_files import write_job_files
from .report import Report, at_most
from .switching import Job, cases, jobs_of

SCHEDULES = ("ready", "whole", "pageable", "per_layer", "per_slot", "pipeswitch", "watermark")
TIMESTAMPS = ("round", "copy", "waits", "messages", "answer")
EVERY_ROUND = ("ready", "pipeswitch", "watermark")
TRIALS = {1.0: 200}  # by ratio
OTHER_TRIALS = 40
QUICK_TRIALS = 3
QUICK_CASES = ("inception_v3_1",)
WARM_UP = 2
RATE_TRIALS = 8
STEADY = 0.05
TRIES = 5
EXCESS = at_most(0.03)
SOFTWARE_MS = at_most(1.0)
OF_PIPESWITCH = at_most(1 / 3)
UNLIMITED = 0


def run(options: Options) -> Report:
    report = Report("schedules")
    calibration = Calibration()
    few = options.quick and not options.only
    wanted = QUICK_CASES if few else filter(options.wants, cases())
    for case, job, ratio in jobs_of(wanted):
        trials = QUICK_TRIALS if options.quick else TRIALS.get(ratio, OTHER_TRIALS)
        with operator_threads(options.threads):
            measure(case, job, ratio, trials, calibration, report)
    calibration.add_to(report)
    return report


def measure(
    case: str,
    job: Job,
    ratio: float,
    trials: int,
    calibration: Calibration,
    report: Report,
) -> None:
    progress(f"schedules: {case}")
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder), *job)
        with Program(Path(folder), UNLIMITED) as program:
            for _ in range(TRIES):
                ready = [program.trial("ready")["answer"] for _ in range(WARM_UP + RATE_TRIALS)]
                if spread(ready[WARM_UP:]) <= STEADY:
                    break
            image = program.facts["size"]
        rate = image / (stats.median(ready[WARM_UP:]) / 1e9 * ratio)
        with Program(Path(folder), int(rate)) as program:
            add_rows(case, program.facts, rate, _rounds(program, trials, calibration), report)


def spread(times: Sequence[float]) -> float:
    quarter = stats.percentile(times, 75) - stats.percentile(times, 25)
    return quarter / stats.median(times)


def _rounds(
    program: Program, trials: int, calibration: Calibration
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEDULES}
    every = max(1, trials // OTHER_TRIALS)
    for number, order in enumerate(interleaved(list(SCHEDULES), trials)):
        calibration.sample()
        for name in order:
            if name in EVERY_ROUND or number % every == 0:
                found[name].append(program.trial(name) | {"round": number})
    return found


@torch.no_grad()
def write_job(folder: Path, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Of an inference, with what eager answers."""
    from laneway.capture.capture import capture_inference

    captured = capture_inference(model, inputs)
    write_job_files(folder, captured, captured.inputs.tensors(inputs), [model(*inputs)])


class Program:
    """laneway-switch-schedules; a context manager. RuntimeError with its last words."""

    def __init__(self, folder: Path, rate: int, cores: tuple[int, int] = (-1, -1)) -> None:
        import os

        command = [str(find_program("laneway-switch-schedules")), str(folder), str(rate)]
        self._process = subprocess.Popen(
            [*command, *map(str, cores)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=os.environ | one_thread(1),
        )  # fmt: skip
        self.facts: dict[str, Any] = self._answer()

    def trial(self, schedule: str) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(schedule + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout and self._process.stderr
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self._process.stderr.read().strip() or "the program ended")
        return json.loads(line)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def bound(
    facts: dict[str, Any], rate: float, ready: list[dict[str, Any]], scale: float = 1.0
) -> float:
    """Nanoseconds of the best schedule, where all that is computed takes `scale` times as long."""
    answer = scale * stats.median([one["answer"] for one in ready])
    starts = [stats.median(times) for times in zip(*(one["starts"] for one in ready), strict=True)]
    # A node that was copied for behind the request begins at its bytes' arrival at the earliest.
    behind = [
        need / rate * 1e9 + answer - scale * at
        for need, at in zip(facts["needs"], starts, strict=True)
    ]
    return max(answer, *behind)


def software(trial: dict[str, Any]) -> float:
    """Nanoseconds in which it neither copied nor computed: computing is from the first node's
    beginning to the answer, without waits."""
    waits = trial["waits"]
    busy = [(trial["copy"][0], trial["copy"][1])] if trial["copy"][1] else []
    at = trial["starts"][0]
    for begin, end in zip(waits[::2], waits[1::2], strict=True):
        if begin > at:
            busy.append((at, begin))
        at = max(at, end)
    busy.append((at, trial["answer"]))
    covered, reached = 0.0, 0.0
    for begin, end in sorted(busy):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return trial["answer"] - covered


def add_rows(
    case: str,
    facts: dict[str, Any],
    rate: float,
    found: dict[str, list[dict[str, Any]]],
    report: Report,
) -> None:
    best = bound(facts, rate, found["ready"])
    report.add(case, "bound_ms", best / 1e6, "ms")
    report.add(case, "rate_MB_per_s", rate / 1e6, "MB/s")
    report.add(case, "modules", facts["modules"][0], "groups")
    alone = [one["answer"] for one in found["ready"]]
    bounds = [bound(facts, rate, found["ready"], one / stats.median(alone)) for one in alone]
    wide = spread(alone)
    note = None
    if wide > STEADY:
        note = f"void: ready's interquartile range is {wide:.0%}, above {STEADY:.0%}"
    theirs = [software(one) for one in found["pipeswitch"]]
    for name in SCHEDULES:
        of, trials = f"{case}_{name}", found[name]
        times = [one["answer"] / 1e6 for one in trials]
        report.add(of, "answer_ms", stats.median(times), "ms", samples=times)
        # A line a trial: each is JSON, with as many waits as the lane had.
        report.samples[f"{of}/timestamps_ns"] = [
            json.dumps({key: one[key] for key in TIMESTAMPS}, separators=(",", ":"))
            for one in trials
        ]
        if name == "ready":
            continue
        excess = stats.bootstrap_median(
            [one["answer"] / bounds[one["round"]] - 1 for one in trials]
        )
        is_ours = name == "watermark"
        is_judged = is_ours and note is None
        report.add(of, "excess", excess.high, "share", EXCESS if is_judged else None,
                   median=excess.median, note=note)  # fmt: skip
        neither = [software(one) for one in trials]
        middle = stats.median(neither) / 1e6
        report.add(of, "software_ms", middle, "ms", SOFTWARE_MS if is_ours else None,
                   samples=[ns / 1e6 for ns in neither])  # fmt: skip
        if is_ours:
            ratio = stats.median(neither) / max(stats.median(theirs), 1.0)
            report.add(of, "software_of_pipeswitch", ratio, "ratio", OF_PIPESWITCH)
    messages = [ns / 1e3 for one in found["pipeswitch"] for ns in one["messages"]]
    if messages:
        report.add(
            f"{case}_pipeswitch", "message_us", stats.median(messages), "us", samples=messages
        )
    else:
        report.add(f"{case}_pipeswitch", "message_us", None, "us",
                   note="the lane waited for no message")  # fmt: skip
