"""Judges many cases in worker processes. One that crashes or hangs costs the case it was at."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import outcomes
from .outcomes import Case, Outcome, Row

ROOT = Path(__file__).resolve().parents[2]
CASE_TIMEOUT_S = 60.0
START_TIMEOUT_S = 120.0  # torch is imported before the first case


@dataclasses.dataclass(frozen=True)
class Unit:
    """Cases that a worker is given at once. `samples` None: all; `once` as in parts.cases()."""

    part: str
    name: str
    dtype: str
    samples: int | None
    forms: tuple[str, ...]
    once: bool = False


class _Died(Exception):
    """The worker ended, or did not answer in time; says how."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class _Worker:
    def __init__(self, command: list[str], timeout_s: float) -> None:
        path = os.pathsep.join(
            [str(ROOT), str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        self._timeout_s = timeout_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed by close()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        self._fresh = True
        self._rest = b""

    def ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # answer() says how it ended
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line. Raises _Died."""
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            timeout_s = max(self._timeout_s, START_TIMEOUT_S if self._fresh else 0)
            if not select.select([descriptor], [], [], timeout_s)[0]:
                raise _Died(outcomes.HANG, f"no result within {timeout_s:g} s")
            read = os.read(descriptor, 1 << 16)
            if not read:
                code = self._process.wait()
                raise _Died(outcomes.CRASH, f"the process ended with {code}: {self._last_words()}")
            self._rest += read
        self._fresh = False
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin and self._process.stdout
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return outcomes.words_of(lines[-1])[:200] if lines else "no words"


WORKER = [sys.executable, "-m", "bench.corpus.worker"]


def judge(
    units: Iterable[Unit],
    workers: int = 1,
    timeout_s: float = CASE_TIMEOUT_S,
    command: list[str] = WORKER,
    on_unit: Callable[[Unit, list[Row]], None] | None = None,
) -> list[Row]:
    """The rows of all units, in the order of the units. `on_unit` is called with each unit's rows
    when it is done, by one thread at a time."""
    todo: queue.SimpleQueue[tuple[int, Unit]] = queue.SimpleQueue()
    listed = list(units)
    for entry in enumerate(listed):
        todo.put(entry)
    rows: dict[int, list[Row]] = {}
    lock, failures = threading.Lock(), []

    def run() -> None:
        try:
            with _Station(command, timeout_s) as station:
                while not failures:
                    try:
                        number, unit = todo.get_nowait()
                    except queue.Empty:
                        return
                    found = station.rows_of(unit)
                    with lock:
                        rows[number] = found
                        if on_unit is not None:
                            on_unit(unit, found)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [row for number in range(len(listed)) for row in rows[number]]


class _Station:
    """A worker, replaced when it dies."""

    def __init__(self, command: list[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s
        self._worker: _Worker | None = None

    def rows_of(self, unit: Unit) -> list[Row]:
        rows: list[Row] = []
        while True:
            if self._worker is None:
                self._worker = _Worker(self._command, self._timeout_s)
            self._worker.ask(dataclasses.asdict(unit) | {"skip": len(rows)})
            case = Case(unit.part, unit.name, unit.dtype, -1, "(samples)")
            try:
                while True:
                    answer = self._worker.answer()
                    if "begin" in answer:
                        case = Case(**answer["begin"])
                    elif "row" in answer:
                        rows.append(Row.of_json(answer["row"]))
                        case = Case(unit.part, unit.name, unit.dtype, -1, "(samples)")
                    elif "failed" in answer:
                        words = f"samples cannot be made: {answer['failed']}"
                        return [*rows, Row(case, outcomes.not_applicable(words))]
                    else:
                        return rows
            except _Died as died:
                rows.append(Row(case, Outcome(died.kind, str(died))))
                self._worker.close()
                self._worker = None
                if case.sample < 0:
                    return rows

    def __enter__(self) -> _Station:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()
