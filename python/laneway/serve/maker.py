"""What a child process does for one model: imports its model.py, captures it, and leaves in a
folder what a job needs: `answer.json`, the bytes of the slots in one file, and each graph. The
child is forked from a server that has torch (nursery.py), so that nothing that a model's code does
reaches the gateway."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import multiprocessing
import os
import select
import signal
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph, capture_inference
from laneway.capture.signature import TensorInput
from laneway.errors import CaptureError
from laneway.graph.graph_ir import TORCH_OF_DTYPE, SlotKind, ValueKind
from laneway.graph.target import Target
from laneway.serve import tensors

ANSWER = "answer.json"
_IMAGE = "image"
_ALIGNED = 64
_F_SETSIG = 10  # of Linux; the module fcntl lacks it


def make(wish: dict[str, Any]) -> None:
    """`wish`: made by making.Making. Writes the answer: {"error": sentence}, or what Plan reads."""
    os.setsid()  # what a model starts ends with it
    _end_with_gateway()
    os.dup2(2, 1)  # a model's prints are not the gateway's
    sys.dont_write_bytecode = True  # its folder stays as it was checked
    out = Path(wish["out"])
    try:
        answer = _made(wish, out)
    except BaseException as error:  # also SystemExit: it is the model's
        answer = {"error": _last_line(error, Path(wish["folder"]))}
    aside = out / f"{ANSWER}.part"
    aside.write_text(json.dumps(answer))
    aside.rename(out / ANSWER)
    os._exit(0)  # threads and exit handlers of the model are not waited for


def _end_with_gateway() -> None:
    """The kernel kills this process's group when the gateway is gone, whatever the model's code
    does then: the gateway holds the other end of this pipe."""
    gateway = multiprocessing.parent_process()
    assert gateway is not None
    pipe = gateway.sentinel
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(pipe, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)


def _last_line(error: BaseException, folder: Path) -> str:
    """The last line of the traceback, and the model's own line that it comes from."""
    said = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == folder]
    return f"{said} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else said


def _made(wish: dict[str, Any], out: Path) -> dict[str, Any]:
    model = _loaded(Path(wish["folder"]), wish["weights"])
    target = Target(wish["kernels"])
    first, *others = wish["shapes"]
    base = _captured(model, wish, first, target, None)
    digest = _digest(base)
    answer: dict[str, Any] = {"digest": digest, "forms": []}
    if wish["digest"] is None:
        answer["slots"] = _write_image(base, out / _IMAGE)
        answer["image"] = _IMAGE
        answer["random_state"] = "random"
        (out / "random").write_bytes(torch.get_rng_state().numpy().tobytes())
        answer["forms"].append(_form(base, first, wish, out, 0))
    elif wish["digest"] != digest:
        raise CaptureError(
            "the model is captured otherwise than when it was loaded: its code depends on more "
            "than its files",
            remedy="unload and load it, and make load() give the same each time",
        )
    for number, shapes in enumerate(others, start=1):
        captured = _captured(model, wish, shapes, target, base)
        answer["forms"].append(_form(captured, shapes, wish, out, number))
    return answer


def _loaded(folder: Path, weights: str | None) -> torch.nn.Module:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    path = folder / "model.py"
    spec = importlib.util.spec_from_file_location("laneway_served_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "load", None)):
        raise CaptureError(
            "model.py has no function load()", remedy="define it: it gives the module"
        )
    model = module.load()
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"load() gave a {type(model).__name__}", remedy="give a torch.nn.Module")
    if weights is not None:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model.eval()


def _captured(
    model: torch.nn.Module,
    wish: dict[str, Any],
    shapes: list[list[int]],
    target: Target,
    base: CapturedJobGraph | None,
) -> CapturedJobGraph:
    inputs = tuple(
        torch.zeros(shape, dtype=getattr(torch, tensors.torch_name(datatype)))
        for shape, datatype in zip(shapes, wish["datatypes"])
    )
    captured = capture_inference(model, inputs, slots_of=base, target=target, shares_random=False)
    _check(captured)
    return captured


def _check(captured: CapturedJobGraph) -> None:
    """Raises CaptureError for what a graph alone does not do."""
    what = None
    if captured.written_inputs:
        what = f"writes into its input {captured.written_inputs[0]}"
    elif captured.guards is not None:
        what = "does what depends on the values of its inputs"
    elif captured.generators:
        what = "draws from a generator of the process"
    elif captured.uses.effects or captured.outputs.left:
        what = "changes objects of Python in each call"
    if what is not None:
        raise CaptureError(f"the model {what}", remedy="serve a model that only computes")


def _digest(captured: CapturedJobGraph) -> str:
    slots = [(slot.name, int(slot.kind), slot.nbytes) for slot in captured.slots]
    return hashlib.sha256(repr(slots).encode() + captured.encode()).hexdigest()


def _write_image(captured: CapturedJobGraph, path: Path) -> list[dict[str, Any]]:
    """The slots' bytes, one after the other."""
    rows = []
    with open(path, "wb") as file:
        for slot in captured.slots:
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            row = {"name": slot.name, "kind": int(SlotKind(slot.kind)), "bytes": slot.nbytes}
            row["offset"] = file.tell()
            view = memoryview(slot.initial_bytes().numpy()) if slot.nbytes else memoryview(b"")
            row["crc32"] = zlib.crc32(view)
            file.write(view)
            rows.append(row)
    return rows


def _form(
    captured: CapturedJobGraph,
    shapes: list[list[int]],
    wish: dict[str, Any],
    out: Path,
    number: int,
) -> dict[str, Any]:
    graph = f"graph-{number}"
    (out / graph).write_bytes(captured.encode())
    inputs: list[int | str] = []
    for spec in captured.inputs.specs:
        if not isinstance(spec, TensorInput) or spec.source[0] != "input" or spec.place:
            raise CaptureError(f"the graph has an input {spec.source}, which no request gives")
        inputs.append(spec.source[1])
    for index, tensor in enumerate(captured.fixed):
        name = f"fixed-{number}-{index}"
        (out / name).write_bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        inputs.append(name)
    return {"shapes": shapes, "graph": graph, "inputs": inputs, **_outputs(captured, wish, shapes)}


def _outputs(
    captured: CapturedJobGraph, wish: dict[str, Any], shapes: list[list[int]]
) -> dict[str, Any]:
    """All outputs of the graph, and for each of model.toml's which of them it is."""
    every = []
    for number in captured.graph.outputs:
        value = captured.graph.values[number]
        if value.kind != ValueKind.tensor:
            raise CaptureError(
                "the model returns a number that it computes", remedy="return tensors"
            )
        datatype = tensors.OF_TORCH.get(str(TORCH_OF_DTYPE[value.dtype]).removeprefix("torch."))
        every.append({"datatype": datatype, "shape": list(value.sizes)})
    marks = [_Mark(index) for index in range(len(every))]
    chosen = _chosen(captured.outputs.rebuild(marks), [name for name, _, _ in wish["outputs"]])
    for (name, datatype, shape), mark in zip(wish["outputs"], chosen):
        if not isinstance(mark, _Mark):
            raise CaptureError(f"output '{name}' is {mark!r}, which no call computes")
        has = every[mark.index]
        fits = len(shape) == len(has["shape"]) and all(
            want in (-1, size) for want, size in zip(shape, has["shape"])
        )
        if has["datatype"] != datatype or not fits:
            raise CaptureError(
                f"model.toml says that output '{name}' is {datatype} {shape}; the model gives "
                f"{has['datatype']} {has['shape']}"
            )
        if wish["batched"] and has["shape"][0] != shapes[0][0]:
            raise CaptureError(
                f"output '{name}' has {has['shape'][0]} rows for {shapes[0][0]} of the inputs",
                remedy="give a row for each row, or leave max_batch out",
            )
    return {"every": every, "outputs": [mark.index for mark in chosen]}


class _Mark:
    """Stands for an output of the graph in the model's result."""

    def __init__(self, index: int) -> None:
        self.index = index


def _chosen(result: Any, names: list[str]) -> list[Any]:
    """Of what the model returns, the outputs of these names, in their order: by name of a
    dictionary, else by position."""
    if isinstance(result, dict):
        missing = [name for name in names if name not in result]
        if missing:
            told = ", ".join(map(str, result))
            raise CaptureError(f"the model returns no '{missing[0]}'; it returns {told}")
        return [result[name] for name in names]
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(values) != len(names):
        raise CaptureError(f"model.toml has {len(names)} outputs; the model returns {len(values)}")
    return values
