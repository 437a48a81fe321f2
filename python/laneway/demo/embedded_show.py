"""The demo in one process: each job on a thread, over an embedded service."""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import torch

import laneway
from laneway.demo import compare
from laneway.demo.display import columns, size
from laneway.demo.running import (
    REQUEST_ROWS,
    Requests,
    Training,
    Worker,
    lane_and_bytes,
    times_text,
)
from laneway.demo.show import Show
from laneway.demo.workloads import accuracy, evaluate

Trained = tuple[Training, dict[str, torch.Tensor]]


class EmbeddedShow(Show):
    """Joins its threads and closes the service, also after an exception."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.stop = threading.Event()

    def show(self) -> None:
        with laneway.embedded(pool=self.options.pool, policy=self.options.policy) as service:
            trainings = self._train(service)
        self.display.say("\nThe same training by plain PyTorch, here and now:")
        for training, ours in trainings:
            self.compare(training.job, training.done, ours)

    def _train(self, service: Any) -> list[Trained]:
        """Trains all jobs at once while the first answers; returns them with their final states."""
        say = self.display.say
        say(f"One process, one pool of {self.options.pool}, policy {self.options.policy}.")
        trainings: list[Training] = []
        for job in self.jobs:
            model, optimizer = job.begin()
            started = time.perf_counter()
            step = laneway.train_step(
                model,
                job.loss_fn,
                optimizer,
                service=service,
                name=job.name,
                total_iterations=job.iterations,
                random="own",  # each job as if it were alone in its process
            )
            trainings.append(Training(job, step, self.stop))
            trainings[-1].warm_up()
            took = time.perf_counter() - started
            say(f"{job.name} ({job.about}): captured, probed and planned in {took:.1f} s")
        predict = laneway.inference(trainings[0].step, service=service, name="answers")
        predict(self.data.held_out_x[:REQUEST_ROWS])  # captured before the others begin
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
        """Runs all threads at once, shows the progress, and joins them, also after an interrupt."""
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
        """The progress, as a table and as one line."""
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
    ) -> list[Trained]:
        """Shows the accuracy of the trained jobs, and the pool, before the service is closed."""
        self.display.result("\nHeld-out accuracy")
        states = []
        for t in trainings:
            states.append((t, compare.training_state(t.step.state_dict())))
            model, optimizer = t.job.begin()
            t.step.sync_to(model, optimizer)
            logits = evaluate(model, self.data.held_out_x)
            self.say_accuracy(t.job.name, accuracy(logits, self.data.held_out_y))
            if t is trainings[0]:
                self._check_answers(predict, model)
        answered = len(requests.times_s)
        self.say_answered(answered, f"{answered} requests answered while mlp trained")
        times = [(t.job.name, times_text(t.times_s)) for t in trainings]
        if requests.times_s:
            times.append(("answers", times_text(requests.times_s)))
        self.say_times(times)
        self.say_pool("The pool", service.status())
        return states

    def _check_answers(self, predict: Any, model: torch.nn.Module) -> None:
        """Compares Laneway's last answers with those of plain PyTorch with the same weights."""
        x = self.data.held_out_x[:32]
        if not torch.equal(predict(x), evaluate(model, x)):
            self.failures.append("the inference graph answers otherwise than plain PyTorch")
