"""Programs that do round trips when told (bench/trial_loop.h), and the empty graph that they run:
one tensor of four floats in, the same out, no operator between."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from .harness import single_thread_environment
from .report import ROOT

REPLY_TIMEOUT_S = 120.0


def write_empty_graph(path: Path) -> None:
    """The empty graph in its binary form."""
    from laneway.graph import graph_encode
    from laneway.graph import graph_ir as ir

    storage = ir.Storage(ir.StorageKind.input, 0, 16)
    value = ir.Value(ir.ValueKind.tensor, ir.DType.float32, 0, 0, (4,), (1,))
    graph = ir.Graph("empty", ir.GraphKind.inference, ir.NumericContext())
    graph.storages, graph.values, graph.inputs, graph.outputs = [storage], [value], [0], [0]
    path.write_bytes(graph_encode.encode_graph(graph))


class RoundTrips:
    """One such program; a context manager. RuntimeError with the program's last words when it
    fails."""

    def __init__(self, command: list[str]) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
        self._name = Path(command[0]).name if command[0] != sys.executable else command[2]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path} | single_thread_environment(1),
        )
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, count: int, gap_us: int = 0) -> None:
        """Begins a trial of `count` round trips, before each of which the program sleeps for a
        random time of `gap_us` on average; times() waits for it."""
        assert self._process.stdin
        self._process.stdin.write(f"{count} {gap_us}\n")
        self._process.stdin.flush()

    def times(self) -> list[int]:
        """The times of the trial that was asked for, in nanoseconds."""
        return [int(word) for word in self._answer().split()]

    def trial(self, count: int, gap_us: int = 0) -> list[int]:
        self.ask(count, gap_us)
        return self.times()

    def __enter__(self) -> RoundTrips:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        try:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()

    def _answer(self) -> str:
        assert self._process.stdout and self._process.stderr
        if not select.select([self._process.stdout], [], [], REPLY_TIMEOUT_S)[0]:
            self._process.kill()
            raise RuntimeError(f"{self._name}: no answer in {REPLY_TIMEOUT_S:g} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            words = self._process.stderr.read().strip().splitlines()
            raise RuntimeError(f"{self._name}: {words[-1] if words else 'it ended'}")
        return line
