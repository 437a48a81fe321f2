"""A `laneway serve` of the test's own over a folder of models that the test writes, and requests to
it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 120.0
TOML = """
[[input]]
name = "x"
datatype = "FP32"
shape = [-1, 8]

[[output]]
name = "y"
datatype = "FP32"
shape = [-1, 3]
"""
LINEAR = """
import torch
def load():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
"""


def write_model(
    folder: Path, name: str, code: str = LINEAR, toml: str = TOML, more: str = ""
) -> Path:
    """A model's folder; `more` stands in front of the tensors in model.toml."""
    folder.chmod(0o755)
    made = folder / name
    made.mkdir(mode=0o755, exist_ok=True)
    for file, text in (("model.toml", f"{more}\n{toml}"), ("model.py", code)):
        (made / file).write_text(text)
        (made / file).chmod(0o644)
    return made


class Serve:
    """A context manager. Models compute with one thread, as the tests do."""

    def __init__(
        self,
        models: Path,
        address: str = "ipc:///tmp/laneway-nobody/laneway.sock",
        *words: str,
        listen: str = "127.0.0.1:0",
        scratch: Path | None = None,
        limits: dict[str, float] | None = None,
    ) -> None:
        self.scratch = scratch or models.parent / f"{models.name}-scratch"
        options = ["--models", str(models), "--address", address, "--listen", listen]
        set_limits = "".join(
            f"limits.{name} = {value!r}\n" for name, value in (limits or {}).items()
        )
        start = f"from laneway.serve import limits\n{set_limits}"
        start += "import sys\nfrom laneway.cli import main\nsys.exit(main(sys.argv[1:]))"
        own = ["serve", *options, "--scratch", str(self.scratch), *words]
        self._words = [sys.executable, "-c", start, *own]

    def __enter__(self) -> Serve:
        paths = os.pathsep.join([str(ROOT / "python"), str(ROOT)])
        self.process = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        self.ready = self.process.stdout.readline().strip() if ready else ""
        if not self.ready.startswith("laneway serve ready: "):
            self.process.kill()
            raise AssertionError(f"not ready: {self.ready!r}: {self.process.communicate()}")
        self.url = self.ready.split()[3]
        self.host = self.url.removeprefix("http://")
        rpc = [one for one in self.ready.split() if one.startswith("grpc://")]
        self.rpc = rpc[0].removeprefix("grpc://") if rpc else None
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

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request(method, path, data, names)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def infer(self, model: str, inputs: list[Any], **more: Any) -> Reply:
        """Of tensors, as JSON."""
        return self.ask("POST", f"/v2/models/{model}/infer", {"inputs": inputs, **more})


class Reply:
    def __init__(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.code, self.body = code, body
        self.headers = {name.lower(): value for name, value in headers.items()}

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json()["error"]


def row(tensor: Any, name: str = "x", datatype: str = "FP32") -> dict[str, Any]:
    """A tensor as an input in JSON."""
    data = tensor.flatten().tolist()
    return {"name": name, "datatype": datatype, "shape": list(tensor.shape), "data": data}


def binary(tensor: Any, name: str = "x", **more: Any) -> tuple[bytes, dict[str, str]]:
    """The body and headers of a request with this input, and all outputs, as bytes."""
    data = tensor.numpy().tobytes()
    sized = {"binary_data_size": len(data)}
    one = {"name": name, "datatype": "FP32", "shape": list(tensor.shape), "parameters": sized}
    told = {"inputs": [one], "parameters": {"binary_data_output": True}, **more}
    head = json.dumps(told).encode()
    return head + data, {"inference_header_content_length": str(len(head))}


def output_bytes(reply: Reply) -> bytes:
    """What stands behind the JSON of an answer."""
    return reply.body[int(reply.headers["inference-header-content-length"]) :]


def floats(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))
