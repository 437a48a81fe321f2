"""A process that runs trials of one variant when its parent says so.

    python -m bench.worker

reads one JSON object a line from stdin and answers each with one line on what was stdout:
{"make": {name, seed, form, runner, threads, cores}} -> {"about"}; {"trial": n} -> {"times_ns",
"minor_faults"}; {"window": seconds} -> {"iterations", "seconds"}; {"digest": true} -> {"digest"};
{"digests": true} -> {"digests"}; {"addresses": n} -> {"changes", "off_tape", "done"}; {"report":
true} -> what the service says about the job. "make" may also hold "device"; "threads"
is null for torch's own count. End of input ends it,
and so does a failure, which is answered {"error": text}. The client side is `Worker`."""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import harness
from .report import ROOT

CHUNK = 50  # iterations whose batches are made ahead
LEAVE_TIMEOUT_S = 15.0  # until one that is told to end has ended
REPLY_TIMEOUT_S = 900.0  # inductor compiles for minutes on a small machine


class WorkerFailed(RuntimeError):
    """The process said what went wrong, or died."""


class Conversation:
    """The parent's end of a process that does what its stdin says, a line at a time, and answers
    with a JSON object a line. Starts `python -m` the words of `module`. A context manager; leaving
    it ends the process. `threads`: None for torch's own count; `checkout` is the project's folder
    whose code it runs, built; `called` names the process in errors."""

    def __init__(
        self,
        module: list[str],
        called: str,
        threads: int | None,
        environment: dict[str, str] | None = None,
        timeout_s: float = REPLY_TIMEOUT_S,
        checkout: Path = ROOT,
    ) -> None:
        self._called = called
        self._timeout_s = timeout_s
        path = [str(checkout), str(checkout / "python")]
        path += filter(None, [os.environ.get("PYTHONPATH")])
        env = os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}
        env |= harness.single_thread_environment(threads) | (environment or {})
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=checkout,
            env=env,
        )

    def say(self, line: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(f"{self._called} ended with {self._process.wait()}") from None

    def reply(self, asked: str = "") -> dict[str, Any]:
        """The next answer; WorkerFailed says why there is none. `asked` is named then."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], self._timeout_s)[0]:
            self._process.kill()
            raise WorkerFailed(f"{self._called} gave no answer in {self._timeout_s:g} s {asked}")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self._called} ended with {self._process.wait()} {asked}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerFailed(reply["error"])
        return reply

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.close()
            self._process.wait(timeout=LEAVE_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Worker(Conversation):
    """The parent's end. `checkout` is the project's folder whose code it runs, built."""

    def __init__(
        self,
        make: dict[str, Any],
        environment: dict[str, str] | None = None,
        timeout_s: float = REPLY_TIMEOUT_S,
        checkout: Path = ROOT,
    ) -> None:
        threads = make.get("threads", 1)
        super().__init__(["bench.worker"], "the worker", threads, environment, timeout_s, checkout)
        self.about: dict[str, Any] = {}
        self._make = make

    @property
    def pid(self) -> int:
        return self._process.pid

    def make(self) -> None:
        """Builds the workload and its runner; WorkerFailed says why not."""
        self.about = self._ask({"make": self._make})["about"]

    def trial(self, iterations: int) -> dict[str, Any]:
        """Runs `iterations` on the next batches: {"times_ns", "minor_faults"}."""
        return self._ask({"trial": iterations})

    def window(self, seconds: float) -> dict[str, Any]:
        """Trains for about so long: {"iterations", "seconds"}, the seconds that they took."""
        return self._ask({"window": seconds})

    def digest(self) -> str:
        """Hash of the training state after all trials so far."""
        return self._ask({"digest": True})["digest"]

    def digests(self) -> dict[str, str]:
        """The same for each tensor, by name."""
        return self._ask({"digests": True})["digests"]

    def addresses(self, iterations: int) -> dict[str, int]:
        """Runs `iterations`: in how many did an address change against the one before, how many
        left their tape, and how many were done. Laneway's runners only."""
        return self._ask({"addresses": iterations})

    def report(self) -> dict[str, Any]:
        """What the service says about the job, tapes included. Laneway's runners only."""
        return self._ask({"report": True})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.say(json.dumps(request))
        return self.reply(f"to {request}")

    def __enter__(self) -> Worker:
        return self


class _Trials:
    """The worker's end: one workload, one runner, a position in the stream of batches."""

    def __init__(
        self,
        name: str,
        seed: int,
        form: str,
        runner: str,
        threads: int | None,
        cores: Sequence[int],
        device: str | None = None,
    ) -> None:
        import torch

        from .models import make
        from .runner_table import make_runner

        harness.pin(cores)
        if threads is not None:
            torch.set_num_threads(threads)
        self._work = make(name, seed, form)
        torch.manual_seed(seed)  # what the model draws while it trains
        self._runner = make_runner(runner, self._work, device)
        self._next = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "trial" in request:
            return self.trial(request["trial"])
        if "window" in request:
            return self.window(request["window"])
        if "addresses" in request:
            return self.addresses(request["addresses"])
        if "digests" in request:
            return self.digests()
        return self._runner.report(True) if "report" in request else self.digest()

    def about(self) -> dict[str, Any]:
        return {"about": self._runner.about()}

    def addresses(self, iterations: int) -> dict[str, int]:
        before = self._counted()
        for first in range(0, iterations, CHUNK):
            self.trial(min(CHUNK, iterations - first))
        after = self._counted()
        counts = {"changes": "address_changes", "off_tape": "off_tape_count", "done": "iterations"}
        return {name: after[key] - before[key] for name, key in counts.items()}

    def _counted(self) -> dict[str, Any]:
        """The report once the last iteration is in it: it is answered before it is counted, and a
        state is read behind both."""
        self._runner.state()
        return self._runner.report()["graphs"][0]

    def trial(self, iterations: int) -> dict[str, Any]:
        numbers = range(self._next, self._next + iterations)
        batches = self._runner.ready(self._work.batch(i) for i in numbers)
        self._next += iterations
        gc.collect()
        gc.disable()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        try:
            times = self._runner.run(batches)
        finally:
            gc.enable()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        return {"times_ns": times, "minor_faults": faults}

    def window(self, seconds: float) -> dict[str, Any]:
        """A few batches again and again: what counts is how many iterations there are."""
        batches = self._runner.ready(self._work.batch(i) for i in range(8))
        started = time.perf_counter()

        def until_it_is_over() -> Iterator[Any]:
            for number in itertools.count():
                if number and time.perf_counter() - started >= seconds:
                    return
                yield batches[number % len(batches)]

        # In one run: what is under way at the end of one would be waited for each time.
        done = len(self._runner.run(until_it_is_over()))
        return {"iterations": done, "seconds": time.perf_counter() - started}

    def digest(self) -> dict[str, Any]:
        from .state import digest

        return {"digest": digest(self._runner.state())}

    def digests(self) -> dict[str, Any]:
        from .state import digests

        return {"digests": digests(self._runner.state())}

    def close(self) -> None:
        self._runner.close()


def _serve() -> int:
    # Libraries print to stdout; the answers go where it pointed to.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    trials: _Trials | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "make" in request:
                trials = _Trials(**request["make"])
                reply = trials.about()
            elif trials is None:
                raise RuntimeError("nothing was made yet")
            else:
                reply = trials.answer(request)
        except Exception as error:  # whatever it is, the parent reports it as the reason
            text = str(error).strip().split("\n")[0]
            answers.write(json.dumps({"error": f"{type(error).__name__}: {text}"}) + "\n")
            return 1
        answers.write(json.dumps(reply) + "\n")
    if trials is not None:
        trials.close()
    return 0


if __name__ == "__main__":
    sys.exit(_serve())
