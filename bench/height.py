"""height: how far above its live bytes does a plan for low heights keep an iteration, and how long
is it searched for?

The training step of each model is captured and run alone (laneway-plan-height): a probe records its
tape and where each node begins, the nodes are timed one by one, and the tape is planned for low
heights, weighted by these times. All figures are worked out here from the tape and the offsets,
apart from the planner; a plan with two allocations in one place has none. A node's height is the
end of the highest block that is alive in it, its live bytes are the highest sum in it, its reach is
the highest height from it on; means are over the nodes' time, all over the bound, and `excess` is
height less live bytes.

`lowest_mean_height` is that of the plan with the lowest peak, which lanes use."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import models
from .harness import Calibration, Options, find_program, operator_threads, progress
from .harness import single_thread_environment as one_thread
from .job_files import write_job_files
from .report import Report, at_most
from .tapes import Span, Tape, spans

if TYPE_CHECKING:
    from laneway.capture.signature import NumberInput

TRIALS = 20
QUICK_TRIALS = 2
SEED = 1
TARGETS = {"peak_over_bound": ("ratio", at_most(1.08)), "search_s": ("s", at_most(3))}


def cases() -> list[str]:
    return list(models.NAMES)


def run(options: Options) -> Report:
    report = Report("height")
    trials = QUICK_TRIALS if options.quick else TRIALS

    def one(name: str, folder: Path) -> None:
        add_rows(name, measure(folder, trials, options.threads), report)

    each_step(options, report, one, lambda name: TARGETS)
    return report


def each_step(
    options: Options,
    report: Report,
    one: Callable[[str, Path], None],
    targets: Callable[[str], dict[str, Any]],
) -> None:
    """one(name, folder of the training step's files) for each model that is wanted. One that
    cannot be measured has null for each of its targets (metric: unit, target)."""
    calibration = Calibration()
    for name in models.NAMES:
        if not options.wants(name):
            continue
        progress(f"{report.bench}: {name}")
        calibration.sample()
        try:
            with tempfile.TemporaryDirectory() as folder:
                write_step(Path(folder), name, options.threads)
                one(name, Path(folder))
        except (OSError, RuntimeError, ValueError) as error:
            for metric, (unit, target) in targets(name).items():
                report.add(name, metric, None, unit, target, note=str(error))
    calibration.add_to(report)


def write_step(folder: Path, name: str, threads: int) -> None:
    """The files of a model's training step."""
    from laneway.capture.capture import capture_train_step
    from laneway.capture.signature import TensorInput

    work = models.make(name)
    inputs, named = models.arguments(work.batch(0))
    with operator_threads(threads):
        captured = capture_train_step(work.model, work.loss_fn, work.optimizer, inputs, named)
    tensors = iter(captured.inputs.tensors(inputs, named))
    given = [
        next(tensors) if isinstance(spec, TensorInput) else learning_rate(spec, work.optimizer)
        for spec in captured.inputs.specs
    ]
    write_job_files(folder, captured, given)


def learning_rate(spec: NumberInput, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    _, group, name = spec.source
    return torch.tensor(float(optimizer.param_groups[group][name]), dtype=torch.float64)


def measure(folder: Path, trials: int, threads: int) -> dict[str, Any]:
    """What laneway-plan-height prints."""
    return printed_by("laneway-plan-height", folder, trials, SEED, threads=threads)


def printed_by(program: str, folder: Path, *words: int, threads: int) -> dict[str, Any]:
    """The object that a program prints of a step's files; RuntimeError with its last words."""
    command = [str(find_program(program)), str(folder), *map(str, words)]
    environment = os.environ | one_thread(threads)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"it ended with {done.returncode}")
    return json.loads(done.stdout)


def add_rows(name: str, found: dict[str, Any], report: Report) -> None:
    tape, times = Tape.of(found), [*found["node_ns"], 0]
    bound, nodes = tape.live_bound(), spans(tape, found["marks"])
    low, lowest = (checked_heights(tape, nodes, found[plan]) for plan in ("heights", "lowest"))
    live = mean([node.live for node in nodes], times) / bound
    figures = {
        "peak_over_bound": tape.peak(found["heights"]["offsets"]) / bound,
        "search_s": found["heights"]["search_s"],
        "excess": mean(low, times) / bound - live,
        "mean_height": mean(low, times) / bound,
        "mean_live": live,
        "mean_reach": mean(reaches(low), times) / bound,
        "lowest_mean_height": mean(lowest, times) / bound,
        "commit_share": sum(times[found["first_write"] :]) / sum(times),
    }
    note = f"{len(tape.allocations)} allocations, {len(nodes) - 1} nodes, {bound / 2**20:.2f} MiB"
    for metric, value in figures.items():
        unit, target = TARGETS.get(metric, ("ratio", None))
        first = metric == "peak_over_bound"
        report.add(name, metric, value, unit, target, note=note if first else None)


def checked_heights(tape: Tape, nodes: Sequence[Span], plan: dict[str, Any]) -> list[int]:
    """The heights of a plan; ValueError when the program has other ones."""
    rises = heights(tape, nodes, plan["offsets"])
    if (rises, reaches(rises)) != (plan["rise"], plan["reach"]):
        raise ValueError("what memory/heights says of a plan is not what its tape says")
    return rises


def heights(tape: Tape, nodes: Sequence[Span], offsets: Sequence[int]) -> list[int]:
    """By node: the end of the highest block that is alive in it."""
    ends = tape.ends(offsets)
    return [max((ends[block] for block in node.blocks), default=0) for node in nodes]


def reaches(rises: Sequence[int]) -> list[int]:
    """By node: the highest from it on."""
    return list(itertools.accumulate(reversed(rises), max))[::-1]


def mean(values: Sequence[int], times: Sequence[int]) -> float:
    """Over the nodes' time."""
    return sum(value * time for value, time in zip(values, times, strict=True)) / sum(times)
