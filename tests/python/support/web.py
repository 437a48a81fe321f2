"""A `laneway web` of the test's own, and requests to it: bytes as they go over the wire, so that a
test can say what no library would."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 120.0
_PATCHED = """
import sys
from laneway.web import limits
for name, value in {limits!r}.items():
    assert hasattr(limits, name), name
    setattr(limits, name, value)
from laneway.cli import main
sys.exit(main(["web", *sys.argv[1:]]))
"""


class Web:
    """A context manager. `limits` of the program are set otherwise; `jobs`: over a made status with
    so many instead of a service (bench/web_stand_in.py)."""

    def __init__(
        self,
        address: str = "ipc:///tmp/laneway-nobody/laneway.sock",
        *words: str,
        jobs: int | None = None,
        listen: str = "127.0.0.1:0",
        limits: dict[str, float] | None = None,
    ) -> None:
        words = ("--address", address, "--listen", listen, *words)
        start = ["-c", _PATCHED.format(limits=limits or {})]
        if jobs is not None:
            start = ["-m", "bench.web_stand_in", str(jobs)]
        self._words = [sys.executable, *start, *words]
        self._paths = os.pathsep.join([str(ROOT / "python"), str(ROOT)])

    def __enter__(self) -> Web:
        self.process = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": self._paths},
        )
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        line = self.process.stdout.readline().strip() if ready else ""
        if not line.startswith("laneway web ready: "):
            self.process.kill()
            raise AssertionError(f"not ready: {line!r}: {self.process.communicate()}")
        self.url = line.removeprefix("laneway web ready: ")
        self.place, _, self.token = self.url.partition("?token=")
        self.host = self.place.removeprefix("http://").rstrip("/")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, number: int) -> int:
        """Its exit code after this signal."""
        self.process.send_signal(number)
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()

    def connect(self) -> socket.socket:
        """A connection on which nothing was said."""
        if self.place.startswith("unix:"):
            opened = socket.socket(socket.AF_UNIX)
            opened.settimeout(DEADLINE_S)
            opened.connect(self.place.removeprefix("unix:"))
            return opened
        name, _, port = self.host.rpartition(":")
        return socket.create_connection((name, int(port)), DEADLINE_S)

    def head(self, method: str, path: str, **headers: str | None) -> bytes:
        """The head of a request that is let in; a header that is None is left out."""
        all_headers = {
            "host": self.host,
            "authorization": f"Bearer {self.token}",
            "origin": f"http://{self.host}" if method == "POST" else None,
        } | headers
        lines = [f"{key.replace('_', '-')}: {v}" for key, v in all_headers.items() if v is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    def get(self, path: str, **headers: str | None) -> Answer:
        with self.connect() as opened:
            opened.sendall(self.head("GET", path, connection="close", **headers))
            return Answer(read_all(opened))

    def post(self, path: str, body: Any, **headers: str | None) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with self.connect() as opened:
            length = {"content_length": str(len(data)), "connection": "close"}
            opened.sendall(self.head("POST", path, **length | headers) + data)
            return Answer(read_all(opened))


class Answer:
    """An answer that was read to its end."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.code = int(first.split()[1]) if first else 0
        pairs = [line.partition(": ") for line in lines]
        self.headers = {name.lower(): value for name, _, value in pairs}

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json()["error"]


def read_all(opened: socket.socket) -> bytes:
    """Until the other side ends; what came before it broke off."""
    parts = []
    try:
        while part := opened.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


class Stream:
    """An open page: the events of GET /api/events."""

    def __init__(self, web: Web) -> None:
        self._opened = web.connect()
        self._opened.sendall(web.head("GET", "/api/events"))
        self._file = self._opened.makefile("rb")
        self.code = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._opened.close()

    def next(self, *kinds: str) -> tuple[str, Any]:
        """The next event of one of these kinds."""
        kind, end = "", time.monotonic() + DEADLINE_S
        while line := self._file.readline():
            assert time.monotonic() < end, f"none of {kinds} came"  # others do, each second
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: ") and kind in kinds:
                return kind, json.loads(line[6:])
        raise AssertionError(f"the stream ended before any of {kinds}")

    def until(self, kind: str, holds: Any) -> Any:
        """The first event of this kind for which it holds."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            _, data = self.next(kind)
            if holds(data):
                return data
        raise AssertionError(f"no such {kind} came")
