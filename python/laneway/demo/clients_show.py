"""The demo with a lanewayd and a process for each job: the order of its events."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import laneway
from laneway.demo.client import ANSWERS, LAST_ROWS, SERVED
from laneway.demo.display import columns, size
from laneway.demo.processes import Client, Lanewayd
from laneway.demo.running import lane_and_bytes
from laneway.demo.show import Show
from laneway.demo.workloads import Job, evaluate, make_table_jobs
from laneway.jobs.service import parse_bytes

LATE, TABLE = "late", "table"
POLL_S = 0.02

Start = Callable[[str], Client]


class ClientsShow(Show):
    """Ends every process that it started, also after an exception. `start` starts a client by
    name."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.clients: dict[str, Client] = {}
        self.waiting: dict[str, Any] | None = None  # status of the late job while it waits
        self.crowded: dict[str, Any] | None = None  # the service's status at that time
        self.deadline = float("inf")
        self._said: set[str] = set()

    def prepare(self) -> None:
        super().prepare()
        pool = parse_bytes(self.options.pool)
        self.jobs += make_table_jobs(self.data, self.options.seed, pool)

    def show(self) -> None:
        with tempfile.TemporaryDirectory(prefix="laneway-demo-") as name:
            folder = Path(name)
            with Lanewayd(folder, self.options.pool, self.options.policy) as daemon:
                self.display.say(
                    f"lanewayd is process {daemon.pid}, with one pool of {self.options.pool} and "
                    f"policy {self.options.policy}; each job is a client process."
                )
                with laneway.connect(daemon.address) as service:
                    self.drive(service, lambda job: self._start(job, daemon.address, folder))
            self.results()
            self.compare_all(folder)

    def drive(self, service: Any, start: Start) -> None:
        """Runs all clients to their end, and shows how it goes."""
        try:
            for name in (SERVED, "cnn", TABLE):
                self.clients[name] = start(name)
            while not self._all_ended():
                time.sleep(POLL_S)
                for client in self.clients.values():
                    client.hear()
                    self._say_ready(client)
                if time.monotonic() > self.deadline:
                    self._tell("stop", SERVED, "cnn", TABLE)
                status = service.status()
                self._notice_wait(status)
                self._lead_on(start)
                if self.display.due():
                    self.display.live(*self._progress(status))
        finally:
            for client in self.clients.values():
                client.leave()
            with contextlib.ExitStack() as ending:
                for client in self.clients.values():
                    ending.callback(client.end)

    def _start(self, name: str, address: str, folder: Path) -> Client:
        options = self.options
        arguments = ["--address", address, "--folder", str(folder), "--pool", options.pool]
        arguments += ["--seed", str(options.seed)]
        if options.epochs:
            arguments += ["--epochs", str(options.epochs)]
        return Client(name, arguments)

    def _lead_on(self, start: Start) -> None:
        """Sends the commands that follow from the clients' progress."""
        if ANSWERS not in self.clients and self._has(SERVED, "ready"):
            self.clients[ANSWERS] = start(ANSWERS)
        if LATE not in self.clients and self._has(TABLE, "ready"):
            self.clients[LATE] = start(LATE)
        if "go" not in self._said and self._all_there():
            self._said.add("go")
            self.deadline = time.monotonic() + (self.options.seconds or float("inf"))
            self._tell("go", *self.clients)
        if self._has(SERVED, "trained"):
            self._tell("stop", ANSWERS)
        if self._has(ANSWERS, "trained"):
            self._tell("close", SERVED)

    def _tell(self, command: str, *names: str) -> None:
        for name in names:
            if name in self.clients and (key := f"{command} {name}") not in self._said:
                self._said.add(key)
                self.clients[name].tell(command)

    def _has(self, name: str, event: str) -> bool:
        return name in self.clients and event in self.clients[name].events

    def _all_there(self) -> bool:
        """Whether the clients with room can begin, and the other one waits (or has found room and
        will report it)."""
        ready = all(self._has(name, "ready") for name in (SERVED, "cnn", TABLE, ANSWERS))
        return ready and (self.crowded is not None or self._has(LATE, "ready"))

    def _all_ended(self) -> bool:
        return {ANSWERS, LATE} <= self.clients.keys() and all(
            "ended" in client.events for client in self.clients.values()
        )

    def _say_ready(self, client: Client) -> None:
        if "ready" not in client.events or client.name in self._said:
            return
        self._said.add(client.name)
        took = client.facts["seconds"]
        if client.name == ANSWERS:
            self.display.say(
                f"{ANSWERS}, process {client.pid}: uses {SERVED}'s weights, has its first answer "
                f"after {took:.1f} s"
            )
            return
        job = self._job(client.name)
        self.display.say(
            f"{job.name} ({job.about}), process {client.pid}: has its memory, captured, probed and "
            f"planned after {took:.1f} s"
        )

    def _notice_wait(self, status: dict[str, Any]) -> None:
        late = next((j for j in status["jobs"] if j["name"] == LATE), None)
        self.waiting = late if late is not None and late["position"] else None
        if self.waiting is None:
            return
        if self.crowded is None:
            pid = self.clients[LATE].pid
            self.display.say(f"{wait_text(self.waiting)} (process {pid})")
            self.crowded = status

    def _progress(self, status: dict[str, Any]) -> tuple[list[str], str]:
        """The progress, as a table and in brief."""
        rows = [["job", "process", "iteration", "it/s", "loss", "lane", "persistent", "ephemeral"]]
        briefs = []
        for client in self.clients.values():
            if client.name == ANSWERS:
                continue
            lane, persistent, ephemeral = lane_and_bytes(status, client.name)
            done, loss = str(client.facts.get("done", 0)), client.facts.get("loss")
            how = self._how(client)
            loss = "-" if loss is None else f"{loss:.4f}"
            row = [client.name, str(client.pid), done, how, loss, lane]
            rows.append([*row, size(persistent), size(ephemeral)])
            briefs.append(
                f"{client.name} {done} ({how}/s, loss {loss})"
                if how.isdigit()
                else f"{client.name} {how}"
            )
        waits = [wait_text(self.waiting)] if self.waiting else []
        lines = [self._answers(), *waits, ""]
        answers = [self._answers()] if self._has(ANSWERS, "progress") else []
        brief = "\n  ".join(["; ".join(briefs), *answers, *waits])
        # The number of lines is constant, because they replace each other.
        return [*columns(rows), *lines[:2]], brief

    def _how(self, client: Client) -> str:
        """The client's activity; iterations per second while it trains."""
        if "trained" in client.events:
            return "done"
        if "progress" in client.events:
            return f"{client.facts['rate']:.0f}"
        if client.name == LATE and self.waiting:
            return "waits"
        return "ready" if "ready" in client.events else "starting"

    def _answers(self) -> str:
        facts = self.clients[ANSWERS].facts if ANSWERS in self.clients else {}
        text = f"{facts.get('done', 0)} requests answered by another process with mlp's weights"
        right = facts.get("accuracy", float("nan"))
        return text if right != right else f"{text}, lately {right:.1%} right"

    def _job(self, name: str) -> Job:
        return next(job for job in self.jobs if job.name == name)

    def results(self) -> None:
        """Shows the accuracy of the trained jobs, and the pool while the last one waited."""
        facts = {name: client.facts for name, client in self.clients.items()}
        self.display.result("\nHeld-out accuracy")
        for name in (SERVED, "cnn"):
            self.say_accuracy(name, facts[name]["accuracy"])
        self.say_answered(facts[ANSWERS]["done"], self._answers())
        self.say_times([(name, f["times"]) for name, f in facts.items() if f["times"]])
        if self.crowded is None:
            self.failures.append("the late job found room at once, and was to wait")
        else:
            self.say_pool("The pool while late waited", self.crowded)

    def compare_all(self, folder: Path) -> None:
        """Trains every job again with plain PyTorch, and compares states and answers."""
        self.display.say("\nThe same training by plain PyTorch, here and now:")
        for name, client in self.clients.items():
            if name == ANSWERS:
                continue
            ours = torch.load(folder / name)
            model = self.compare(self._job(name), client.facts["done"], ours)
            if name == SERVED:
                answers = torch.load(folder / ANSWERS)
                if not torch.equal(answers, evaluate(model, self.data.held_out_x[:LAST_ROWS])):
                    self.failures.append("the answers are other ones than plain PyTorch's")


def wait_text(job: dict[str, Any]) -> str:
    """Position, reason and estimate of a job that waits, from its line of the status."""
    reason, estimate = job["reason"], job["wait_estimate_s"]
    numbers = reason["numbers"]
    why = reason["text"]
    if reason["code"] == "pool_full":
        needs = size(numbers["persistent_bytes"] + numbers["region_bytes"])
        claimed, capacity = size(numbers["claimed_bytes"]), size(numbers["capacity_bytes"])
        why = f"needs {needs}, and {claimed} of {capacity} are claimed"
    about = "" if estimate is None else f"; starts in about {max(1, round(estimate))} s"
    return f"{job['name']} waits at position {job['position']}: {why}{about}"
