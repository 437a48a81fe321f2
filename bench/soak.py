"""soak: is anything lost, leaked or given up wrongly when processes die and stop for an hour?

Four jobs train through one connection, and one of a client that is killed itself and goes on from
its file. Meanwhile workers, standbys, brokers and that client are killed, or stopped and continued,
in bursts of one to five with 0.2 s between two of them; the next burst comes after a completed
request. Eight processes that only compute run beside all of it. In the end all losses and states
must have the bits of runs that nobody disturbed, and the service must have what it had before."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import laneway

from .baseline import SETTLE_S, report_against, resources
from .daemon import Daemon, children_of, cpu_s
from .failover import Jobs, JournalWords, compare
from .harness import Options, progress
from .models import arguments, make, pool_for
from .report import ROOT, Report, at_least, at_most
from .soak_client import BATCHES, make_step
from .state import first_difference, training_state

CASE = "hour"
NAMES = ("mlp", "cnn", "gpt", "lstm")
CLIENT = "mlp"  # the model of the client that is killed
BUSY = 8
LENGTH_S = 3600.0
QUICK_S = 60.0
LONGEST_BURST = 5
BETWEEN_S = 0.2
LONGEST_STOP_S = 3.0
NO_PROGRESS_S = 300.0  # without a completed request: it is stuck


def cases() -> list[str]:
    return [CASE]


def run(options: Options) -> Report:
    report = Report("soak")
    if options.wants(CASE):
        _measure(QUICK_S if options.quick else LENGTH_S, report)
    return report


def _measure(length_s: float, report: Report) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = folder / "log"
        pool = sum(pool_for(make(name)) for name in (*NAMES, CLIENT))
        daemon = stack.enter_context(Daemon(pool, words=("--lanes", "4", "--log-file", str(log))))
        service = stack.enter_context(laneway.connect(daemon.address))
        warm = Jobs(["mlp"], service)
        warm.train()
        warm.close()
        before = resources(daemon, service)
        stack.enter_context(BusyProcesses())
        client = stack.enter_context(Client(daemon.address, folder / "client.pt"))
        jobs = Jobs(list(NAMES), service)
        jobs.train()
        faults = stack.enter_context(Faults(daemon, client, length_s))
        faults.start()
        while faults.is_alive():
            jobs.train()
        jobs.train()
        client.end()
        seen = jobs.close()
        after = resources(daemon, service)
        hangs = len(re.findall(r"is given up: lane \d+", log.read_text()))
        saved = torch.load(client.path)
    for kind, count in sorted(faults.counts.items()):
        report.add(CASE, kind, float(count), "faults", at_least(1.0))
    report.add(CASE, "length_s", length_s, "s", at_least(LENGTH_S))
    stands = float(bool(faults.error))
    report.add(CASE, "standstills", stands, "times", at_most(0.0), note=faults.error or None)
    report.add(CASE, "false_hangs", float(hangs), "lanes", at_most(0.0))
    report_against(CASE, before, after, report)
    compare(CASE, NAMES, seen, report)
    _compare_client(saved, report)


class BusyProcesses:
    def __enter__(self) -> BusyProcesses:
        command = [sys.executable, "-c", "while True: pass"]
        self._all = [subprocess.Popen(command) for _ in range(BUSY)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.kill()
            process.wait()


class Client:
    """The training that is killed itself: started again whenever it is gone."""

    def __init__(self, address: str, path: Path) -> None:
        self.path = path
        words = [address, CLIENT, str(path), str(torch.get_num_threads())]
        self._command = [sys.executable, "-m", "bench.soak_client", *words]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "python")])
        return subprocess.Popen(self._command, env=os.environ | {"PYTHONPATH": paths})

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def tend(self) -> None:
        """One that ended in another way than by being killed is an error."""
        code = self._process.poll()
        if code is None:
            return
        if code != -signal.SIGKILL:
            raise RuntimeError(f"the client of the soak ended with {code}")
        self._process = self._start()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self.tend()
        while not self.path.exists():
            time.sleep(0.1)
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=SETTLE_S)
        if code not in (0, -signal.SIGTERM):  # it had just been started again: the file is whole
            raise RuntimeError(f"the client of the soak ended with {code}")


class Faults(threading.Thread):
    """Bursts of faults, until the time is over. `error` says why it ended before."""

    def __init__(self, daemon: Daemon, client: Client, length_s: float) -> None:
        super().__init__(daemon=True)
        self._daemon, self._client = daemon, client
        self._until = time.monotonic() + length_s
        self._chance = random.Random(7)
        self._journal = JournalWords(daemon.process.pid)
        self.counts: dict[str, int] = collections.Counter()
        self.error = ""
        self._kinds: dict[str, Callable[[], None]] = {
            "kills_of_workers": lambda: self._kill_process(self._worker(active=True)),
            "kills_of_standbys": lambda: self._kill_process(self._worker(active=False)),
            "kills_of_brokers": lambda: self._kill_process(self._daemon.pid_of("laneway-broker")),
            "kills_of_clients": lambda: self._client.send(signal.SIGKILL),
            "stops_of_workers": lambda: self._stop_for_a_while(self._worker(active=True)),
            "stops_of_standbys": lambda: self._stop_for_a_while(self._worker(active=False)),
            "stops_of_brokers": lambda: self._stop_for_a_while(
                self._daemon.pid_of("laneway-broker")
            ),
            "stops_of_clients": self._stop_client,
        }

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, *_: object) -> None:
        self._until = 0.0
        if self.is_alive():
            self.join()

    def run(self) -> None:
        try:
            while time.monotonic() < self._until:
                self._burst()
                self._wait_for_a_request()
        except (RuntimeError, TimeoutError) as error:
            self.error = str(error)

    def _burst(self) -> None:
        for _ in range(self._chance.randint(1, LONGEST_BURST)):
            kind = self._chance.choice(list(self._kinds))
            try:
                self._kinds[kind]()
                self.counts[kind] += 1
            except (LookupError, OSError):
                pass  # it is just dying
            time.sleep(BETWEEN_S)
        self._client.tend()

    def _wait_for_a_request(self) -> None:
        ended = self._journal.ended()
        stuck = time.monotonic() + NO_PROGRESS_S
        while self._journal.ended() == ended:
            if time.monotonic() > stuck:
                raise TimeoutError(f"no request was completed for {NO_PROGRESS_S:.0f} s")
            time.sleep(0.01)

    def _worker(self, active: bool) -> int:
        """The one that has worked more is taken for the active one."""
        workers = []
        for child in children_of(self._daemon.process.pid):
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) == "laneway-worker":
                workers.append(child)
        workers.sort(key=cpu_s)
        if not active and len(workers) < 2:
            raise LookupError("there is no standby")
        return workers[-1 if active else 0]

    def _kill_process(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def _stop_for_a_while(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._later(lambda: os.kill(pid, signal.SIGCONT))

    def _stop_client(self) -> None:
        self._client.send(signal.SIGSTOP)
        self._later(lambda: self._client.send(signal.SIGCONT))

    def _later(self, act: Callable[[], None]) -> None:
        def go_on() -> None:
            with contextlib.suppress(OSError):  # it died meanwhile
                act()

        timer = threading.Timer(self._chance.uniform(0.05, LONGEST_STOP_S), go_on)
        timer.daemon = True
        timer.start()


def _compare_client(saved: dict[str, Any], report: Report) -> None:
    iterations = int(saved["iterations"])
    progress(f"soak: the client's {iterations} iterations again")
    batches = [arguments(make(CLIENT).batch(i)) for i in range(BATCHES)]
    with (
        laneway.embedded(pool=pool_for(make(CLIENT))) as service,
        make_step(CLIENT, service, CLIENT) as step,
    ):
        for at in range(iterations):
            inputs, named = batches[at % BATCHES]
            step(*inputs, **named)
        state = step.state_dict()
    expected = training_state(state["model"], state["optimizer"])
    difference = first_difference(training_state(saved["model"], saved["optimizer"]), expected)
    note = difference or f"state of {iterations} iterations"
    report.add(
        CASE, "clients_that_differ", float(bool(difference)), "jobs", at_most(0.0), note=note
    )
