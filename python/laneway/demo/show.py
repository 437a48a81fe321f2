"""The parts that both forms of the demo share: start and end, the comparison, and the messages."""

from __future__ import annotations

import abc
import argparse
import sys
import time
from typing import Any

import torch

import laneway
from laneway.demo import compare
from laneway.demo.display import Display, columns, size
from laneway.demo.workloads import EagerStep, Job, load_digits, make_jobs, train

ACCURACY = 0.95


class Failed(Exception):
    """The demo cannot go on; `code` is its exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Show(abc.ABC):
    """Runs the demo once. `run` returns the exit code; all processes and threads that it started
    have ended before it returns."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.display = Display(options.quiet)
        self.failures: list[str] = []

    def run(self) -> int:
        torch.set_num_threads(1)  # one per job: results are repeatable only with equal counts
        try:
            self.prepare()
            self.show()
        except (laneway.Refused, laneway.OutOfMemory) as refused:
            return _told(4, f"refused: {refused}")
        except laneway.InvalidInput as wrong:
            return _told(2, str(wrong))
        except laneway.Error as error:
            return _told(1, str(error))
        except Failed as failed:
            return _told(failed.code, str(failed))
        for failure in self.failures:
            print(f"demo: {failure}", file=sys.stderr)
        if not self.failures:
            self.display.result("\nAll as promised.")
        return 1 if self.failures else 0

    def prepare(self) -> None:
        """Prepares the trainings and their data."""
        self.data = load_digits(self.options.seed)
        self.jobs = make_jobs(self.data, self.options.seed, self.options.epochs)

    @abc.abstractmethod
    def show(self) -> None:
        """All of the demo between its start and the verdict."""

    def say_accuracy(self, name: str, found: float) -> None:
        """Prints the accuracy of a job that has had time to learn."""
        enough = found >= ACCURACY
        self.display.result(
            f"  {name}  {found:.1%}{'' if enough else f', less than {ACCURACY:.0%}'}"
        )
        if not enough:
            self.failures.append(f"{name} has an accuracy of {found:.1%}, below {ACCURACY:.0%}")

    def say_answered(self, count: int, text: str) -> None:
        """Prints how many requests were answered during the training: `text`, which begins with
        `count`."""
        self.display.result(f"\n{text}")
        if count == 0:
            self.failures.append("no request was answered while mlp trained")

    def say_times(self, times: list[tuple[str, str]]) -> None:
        self.display.result("\nTimes of an iteration, loss read")
        for name, text in times:
            self.display.result(f"  {name}  {text}")

    def say_pool(self, title: str, status: dict[str, Any]) -> None:
        self.display.result(f"\n{title}")
        for line in pool_map(status):
            self.display.result(f"  {line}")

    def compare(self, job: Job, done: int, ours: dict[str, torch.Tensor]) -> torch.nn.Module:
        """Trains the job as far with plain PyTorch, and prints whether the states have the same
        bits. Returns the model of plain PyTorch."""
        model, optimizer = job.begin()
        started = time.perf_counter()
        train(EagerStep(model, job.loss_fn, optimizer), job, done)
        took = time.perf_counter() - started
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        plain = compare.digested(compare.training_state(state))
        different = compare.differences(compare.digested(ours), plain)
        text = f"{len(different)} DIFFER" if different else "bit-equal"
        self.display.result(
            f"  {job.name}  {done} iterations in {took:.1f} s: "
            f"{len(plain)} tensors (parameters, buffers, optimizer state) {text}"
        )
        self.failures += [f"{job.name}: {sentence}" for sentence in different]
        return model


def _told(code: int, text: str) -> int:
    print(f"demo: {text}", file=sys.stderr)
    return code


def pool_map(status: dict[str, Any]) -> list[str]:
    """The pieces of the pool and their owners, from its first byte to its last."""
    jobs = {job["id"]: job["name"] for job in status["jobs"]}
    lanes = {lane["id"]: lane["jobs"] for lane in status["lanes"]}
    rows = [["from byte", "size", "held by"]]
    for piece in status["map"]:
        who = piece["kind"]
        if piece["kind"] == "image":
            who = f"{jobs.get(piece['job'], '?')}: parameters, buffers, optimizer state"
        elif piece["kind"] == "region":
            users = ", ".join(jobs.get(job, "?") for job in lanes.get(piece["lane"], []))
            who = f"lane {piece['lane']}: what an iteration of {users or 'nobody'} needs"
        rows.append([str(piece["offset"]), size(piece["bytes"]), who])
    capacity = status["pool"]["capacity_bytes"]
    rows.append([str(capacity), "", f"end of the pool ({size(capacity)})"])
    return columns(rows)
