"""What benches of `laneway serve` share: a server as a process, a folder of models, and callers
that send one request again and again, over HTTP and over gRPC."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import torch

from laneway.serve.messages import CLASSES, SERVICE
from laneway.serve.tensors import OF_TORCH

from .harness import single_thread_environment
from .report import ROOT

DATATYPES = {getattr(torch, name): datatype for name, datatype in OF_TORCH.items()}


def write_model(models: Path, name: str, toml: str, code: str) -> None:
    """A model's folder, which nobody else may write to."""
    own = models / name
    own.mkdir(parents=True)
    (own / "model.toml").write_text(toml)
    (own / "model.py").write_text(code)
    for path in (models, own, own / "model.toml", own / "model.py"):
        path.chmod(path.stat().st_mode & ~0o022)


def http_request(
    host: str, model: str, inputs: dict[str, torch.Tensor], binary: bool = True
) -> bytes:
    """One inference, with all outputs as bytes or all as JSON."""
    rows, after, more = [], b"", ""
    for name, tensor in inputs.items():
        row = {"name": name, "datatype": DATATYPES[tensor.dtype], "shape": list(tensor.shape)}
        if binary:
            data = tensor.numpy().tobytes()
            after += data
            row["parameters"] = {"binary_data_size": len(data)}
        else:
            row["data"] = tensor.flatten().tolist()
        rows.append(row)
    told = {"inputs": rows, "parameters": {"binary_data_output": True}} if binary else {}
    head = json.dumps(told or {"inputs": rows}).encode()
    if binary:
        more = f"inference-header-content-length: {len(head)}\r\n"
    body = head + after
    return (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: {host}\r\n{more}"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


class Program:
    """A server of its own process, with one thread for operators. A context manager."""

    def __init__(self, words: list[str]) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path} | single_thread_environment(1),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        line = self._process.stdout.readline()
        if " ready: " not in line:
            raise RuntimeError(f"{words[0]} said {line!r}")
        words = line.split()
        self.host = next(w for w in words if w.startswith("http://")).removeprefix("http://")
        self.rpc = next(w for w in words if w.startswith("grpc://")).removeprefix("grpc://")

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()


class Caller:
    """A connection that is kept, and one request as it goes over the wire. Another one of the same
    place may be put into `request`."""

    def __init__(
        self, host: str, model: str, inputs: dict[str, torch.Tensor], binary: bool = True
    ) -> None:
        self.request = http_request(host, model, inputs, binary)
        name, _, port = host.rpartition(":")
        self._place = (name, int(port))
        self._opened: socket.socket | None = None

    def ask(self) -> bytes:
        """The body of the answer. Connects at the first one: a server waits seconds for it."""
        if self._opened is None:
            self._opened = socket.create_connection(self._place)
            self._opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file = self._opened.makefile("rb")
        self._opened.sendall(self.request)
        status, length = self._file.readline(), 0
        while (line := self._file.readline()) != b"\r\n":
            if not line:
                raise RuntimeError("the server closed the connection")
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = self._file.read(length)
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {body[:300]!r}")
        return body

    def close(self) -> None:
        if self._opened is not None:
            self._file.close()
            self._opened.close()


class RpcCaller:
    """A channel that is kept, and one request as bytes."""

    def __init__(self, host: str, model: str, inputs: dict[str, torch.Tensor]) -> None:
        request = CLASSES["ModelInferRequest"](model_name=model)
        for name, tensor in inputs.items():
            datatype = DATATYPES[tensor.dtype]
            request.inputs.add(name=name, datatype=datatype, shape=tensor.shape)
            request.raw_input_contents.append(tensor.numpy().tobytes())
        self._request = request.SerializeToString()
        self._channel = grpc.insecure_channel(host)
        self._call = self._channel.unary_unary(f"/{SERVICE}/ModelInfer")

    def ask(self) -> bytes:
        """The answer. Raises grpc.RpcError."""
        return self._call(self._request)

    def close(self) -> None:
        self._channel.close()
