"""Starts the processes of the demo (a lanewayd and its clients), reads their messages, ends them.
They end also when the demo is killed: a client when its standard input closes, lanewayd with its
parent."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from laneway.demo.show import Failed
from laneway.native import bindings, launch, programs
from laneway.native.programs import program
from laneway.native.torch_versions import found_torch

PROGRAMS = ("lanewayd", "laneway-broker")
READY_S = 120.0
END_S = 15.0

_PACKAGES = str(Path(__file__).resolve().parents[2])  # where `import laneway` finds this one
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def missing_programs() -> str | None:
    """The programs of the service that are not built, in words; None when all are there."""
    missing = [name for name in PROGRAMS if program(name) is None]
    torch = found_torch()
    worker = programs.worker(torch.minor if torch else "")
    if worker is None or not worker.exists():
        missing.append("laneway-worker")
    if not bindings.library_path("client").exists():
        missing.append("liblaneway_client.so")
    return ", ".join(missing) or None


class Lanewayd:
    """A service on an address of its own, in `folder`. A context manager."""

    def __init__(self, folder: Path, pool: str, policy: str) -> None:
        self.address = f"ipc://{folder / 'laneway.sock'}"
        self._log = folder / "lanewayd.log"
        command = [str(program("lanewayd")), "--address", self.address, "--pool", pool]
        command += ["--staging", "0"]  # no image leaves: who finds no room waits, which is shown
        command += ["--policy", policy, "--log-level", "warning"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=launch.service_environment(),
                start_new_session=True,  # Ctrl-C is for the demo
                preexec_fn=_end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Lanewayd:
        try:
            self._wait_until_ready()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        code = self.end()
        if code != 0 and exception[0] is None:
            raise Failed(1, f"lanewayd ended with {code}: {self._said()}")

    def end(self) -> int:
        """Ends lanewayd and returns its exit code, once its socket is removed."""
        _end(self._process, lambda: self._process.send_signal(signal.SIGTERM))
        self._process.stdout.close()
        return self._process.returncode

    def _wait_until_ready(self) -> None:
        watchdog = threading.Timer(READY_S, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if "ready" not in line:
            code = self._process.wait()
            raise Failed(2 if code == 2 else 1, f"lanewayd ended with {code}: {self._said()}")

    def _said(self) -> str:
        return self._log.read_text().strip().removeprefix("lanewayd: ") or "it said nothing"


class Client:
    """A client process. hear() reads its messages."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self.facts: dict[str, Any] = {}  # the newest of every kind
        self.events: list[str] = []  # kinds of messages so far, each once
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        path = os.environ.get("PYTHONPATH", "")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "laneway.demo.client", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [_PACKAGES, path]))},
            start_new_session=True,  # Ctrl-C is for the demo
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, command: str) -> None:
        """Sends the command; does nothing when the client has ended."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()

    def hear(self) -> None:
        """Reads the messages that have arrived. Raises Failed when the client failed."""
        while not self._messages.empty():
            message = self._messages.get()
            if message is None:
                if "ended" not in self.events:
                    code = self._process.wait()
                    raise Failed(1, f"client {self.name} ended with {code} before it was done")
                return
            if message["event"] == "failed":
                code = 4 if message["refused"] else 1
                text = f"{self.name}: {message['text']}"
                raise Failed(code, f"refused: {text}" if message["refused"] else text)
            if message["event"] not in self.events:
                self.events.append(message["event"])
            self.facts.update(message)

    def leave(self) -> None:
        """Closes the client's standard input, so that it ends soon."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        """Ends the client if it has not ended."""
        _end(self._process, self.leave)
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # a library printed another line
                continue
            self._messages.put(message)
        self._messages.put(None)


def _end(process: subprocess.Popen, ask: Any) -> None:
    if process.poll() is None:
        with contextlib.suppress(BrokenPipeError):
            ask()
        try:
            process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
