"""The demo from its start to its verdict: what happens in which order, and what is printed."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from typing import Any

import numpy as np
import torch

import laneway
from laneway.demo import compare
from laneway.demo.display import Display, columns, size
from laneway.demo.running import Requests, Training, Worker, lane_and_bytes
from laneway.demo.workloads import (
    EagerStep,
    Job,
    accuracy,
    evaluate,
    load_digits,
    make_jobs,
    train,
)

ACCURACY = 0.95


class Show:
    """Runs the demo once. `run` returns the exit code; whatever happens, threads are joined and the
    service is closed before it does."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.display = Display(options.quiet)
        self.stop = threading.Event()
        self.failures: list[str] = []

    def run(self) -> int:
        torch.set_num_threads(1)  # one a job: the count is part of what makes results repeatable
        self.data = load_digits(self.options.seed)
        jobs = make_jobs(self.data, self.options.seed, self.options.epochs)
        try:
            service = laneway.embedded(pool=self.options.pool, policy=self.options.policy)
        except laneway.InvalidInput as wrong:
            print(f"demo: {wrong}", file=sys.stderr)
            return 2
        except laneway.Error as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
        try:
            with service:
                trainings = self._train(service, jobs)
        except (laneway.Refused, laneway.OutOfMemory) as refused:
            print(f"demo: refused: {refused}", file=sys.stderr)
            return 4
        except laneway.Error as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
        self.display.say("\nThe same training by plain PyTorch, here and now:")
        for training, ours in trainings:
            self._compare(training, ours)
        return self._verdict()

    def _train(
        self, service: Any, jobs: list[Job]
    ) -> list[tuple[Training, dict[str, torch.Tensor]]]:
        """Trains all jobs at once while the first answers; returns them with their final states."""
        say = self.display.say
        say(f"One process, one pool of {self.options.pool}, policy {self.options.policy}.")
        trainings: list[Training] = []
        for job in jobs:
            model, optimizer = job.begin()
            started = time.perf_counter()
            step = laneway.train_step(model, job.loss_fn, optimizer, service=service, name=job.name)
            trainings.append(Training(job, step, self.stop))
            trainings[-1].warm_up()
            took = time.perf_counter() - started
            say(f"{job.name} ({job.about}): captured, probed and planned in {took:.1f} s")
        predict = laneway.inference(trainings[0].step, service=service, name="answers")
        requests = Requests(
            predict,
            self.data.held_out_x,
            self.data.held_out_y,
            lambda: not trainings[0].alive(),
            self.stop,
        )
        say()
        self._run_threads(service, trainings, requests)
        return self._finish(service, trainings, requests, predict)

    def _run_threads(self, service: Any, trainings: list[Training], requests: Requests) -> None:
        """Runs everything at once, shows how it goes, and joins it, interrupted or not."""
        workers: list[Worker] = [*trainings, requests]
        deadline = time.monotonic() + (self.options.seconds or float("inf"))
        try:
            for worker in workers:
                worker.start()
            while any(worker.alive() for worker in workers):
                self.stop.wait(0.02) if not self.stop.is_set() else time.sleep(0.02)
                if time.monotonic() > deadline:
                    self.stop.set()
                if self.display.due():
                    self.display.live(*self._progress(service, trainings, requests))
            self.display.live(*self._progress(service, trainings, requests))
        finally:
            self.stop.set()
            for worker in workers:
                worker.join()
        for worker in workers:
            if worker.error is not None:
                raise worker.error

    def _progress(
        self, service: Any, trainings: list[Training], requests: Requests
    ) -> tuple[list[str], str]:
        """How it goes: as a table, and as one line."""
        status = service.status()
        rows = [["job", "iteration", "it/s", "loss", "lane", "persistent", "ephemeral"]]
        for t in trainings:
            lane, persistent, ephemeral = lane_and_bytes(status, t.job.name)
            done = f"{t.done}/{t.job.iterations}"
            rate = f"{t.recent_rate():.0f}" if t.alive() else "done"
            rows.append(
                [t.job.name, done, rate, f"{t.loss:.4f}", lane, size(persistent), size(ephemeral)]
            )
        answers = f"{len(requests.times_s)} requests answered"
        if requests.times_s:
            answers += f", lately {requests.accuracy:.1%} right"
        words = "{0} {1}, {2} it/s, loss {3}, lane {4}, {5} + {6}"
        brief = "; ".join(words.format(*row).replace("done it/s", "done") for row in rows[1:])
        return [*columns(rows), answers], f"{brief}; {answers}"

    def _finish(
        self, service: Any, trainings: list[Training], requests: Requests, predict: Any
    ) -> list[tuple[Training, dict[str, torch.Tensor]]]:
        """What the trained jobs are worth, and what the pool holds, before all is closed."""
        result = self.display.result
        result("\nHeld-out accuracy")
        states = []
        for t in trainings:
            state = t.step.state_dict()
            states.append((t, compare.training_state(state)))
            model, optimizer = t.job.begin()
            t.step.sync_to(model, optimizer)
            logits = evaluate(model, self.data.held_out_x)
            self._check_accuracy(t.job.name, logits)
            if t is trainings[0]:
                self._check_answers(predict, model)
        result("\nTimes of an iteration, loss read")
        for t in trainings:
            result(f"  {t.job.name}  {_times(t.times_s)}")
        if requests.times_s:
            result(f"  answers  {_times(requests.times_s)}")
        result("\nThe pool")
        for line in pool_map(service.status()):
            result(f"  {line}")
        return states

    def _check_accuracy(self, name: str, logits: torch.Tensor) -> None:
        found = accuracy(logits, self.data.held_out_y)
        enough = found >= ACCURACY
        self.display.result(
            f"  {name}  {found:.1%}{'' if enough else f', less than {ACCURACY:.0%}'}"
        )
        if not enough:
            self.failures.append(f"{name} has an accuracy of {found:.1%}, below {ACCURACY:.0%}")

    def _check_answers(self, predict: Any, model: torch.nn.Module) -> None:
        """Laneway's last answers against those of plain PyTorch with the same weights."""
        x = self.data.held_out_x[:32]
        if not torch.equal(predict(x), evaluate(model, x)):
            self.failures.append("the inference graph answers otherwise than plain PyTorch")

    def _compare(self, training: Training, ours: dict[str, torch.Tensor]) -> None:
        job = training.job
        model, optimizer = job.begin()
        started = time.perf_counter()
        train(EagerStep(model, job.loss_fn, optimizer), job, training.done)
        took = time.perf_counter() - started
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        plain = compare.training_state(state)
        different = compare.differences(ours, plain)
        text = f"{len(different)} DIFFER" if different else "bit-equal"
        self.display.result(
            f"  {job.name}  {training.done} iterations in {took:.1f} s: "
            f"{len(plain)} tensors (parameters, buffers, optimizer state) {text}"
        )
        self.failures += [f"{job.name}: {sentence}" for sentence in different]

    def _verdict(self) -> int:
        for failure in self.failures:
            print(f"demo: {failure}", file=sys.stderr)
        if not self.failures:
            self.display.result("\nAll as promised.")
        return 1 if self.failures else 0


def _times(seconds: list[float]) -> str:
    ms = np.asarray(seconds) * 1e3
    return f"mean {ms.mean():.3f} ms, p99 {np.percentile(ms, 99):.3f} ms, of {len(ms)}"


def pool_map(status: dict[str, Any]) -> list[str]:
    """Who holds which bytes of the pool, from its first to its last."""
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
