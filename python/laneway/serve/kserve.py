"""Requests and answers of inference in the form of KServe v2 over HTTP: JSON, and tensors as bytes
behind it (the binary extension)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import orjson

from laneway.serve import limits, tensors
from laneway.serve.problem import Problem
from laneway.serve.spec import Spec
from laneway.serve.tensors import Tensor

HEADER_LENGTH = b"inference-header-content-length"
_MOST_ELEMENTS = 1 << 62


@dataclasses.dataclass
class Request:
    """`inputs` in the model's order; `outputs`: of each wanted one its place in the model, and
    whether as binary."""

    id: str | None
    inputs: list[Tensor]
    outputs: list[tuple[int, bool]]
    known: Known | None = None


@dataclasses.dataclass(slots=True)
class Known:
    """What a JSON head says of which all tensors stand behind it, and the head of its last answer:
    callers send the same one again and again. `places` are those of the inputs, in the model's
    order: datatype, shape, and the bytes behind the head."""

    places: list[tuple[str, tuple[int, ...], slice]]
    total: int
    outputs: list[tuple[int, bool]]
    answered: tuple[Any, bytes] = (None, b"")

    def request(self, body: bytes, at: int) -> Request:
        inputs = [
            Tensor(datatype, shape, body[at + where.start : at + where.stop])
            for datatype, shape, where in self.places
        ]
        return Request(None, inputs, self.outputs, self)


def parsed(
    spec: Spec, body: bytes, header_length: str | None, heads: dict[bytes, Known]
) -> Request:
    """Raises Problem 400. `heads` are those that the model knows."""
    head, binary = body, memoryview(b"")
    if header_length is not None:
        digits = header_length.isascii() and header_length.isdigit() and len(header_length) <= 12
        if not digits or int(header_length) > len(body):
            raise Problem(
                400,
                f"Inference-Header-Content-Length is {header_length[:40]!r}, and the body has "
                f"{len(body)} bytes",
            )
        head, binary = body[: int(header_length)], memoryview(body)[int(header_length) :]
    known = heads.get(head)
    if known is not None and known.total == len(binary):
        return known.request(body, len(head))
    given = read_json(head)
    request = Request(_id(given), _inputs(spec, given, binary), _outputs(spec, given))
    if request.id is None and 0 < len(head) <= limits.HEAD_KEPT_BYTES:
        request.known = _remembered(spec, given["inputs"], request, head, heads)
    return request


def _remembered(
    spec: Spec, rows: list[Any], request: Request, head: bytes, heads: dict[bytes, Known]
) -> Known | None:
    """Keeps what the head says where nothing but bytes follows; the oldest one goes."""
    if any("data" in row or not all(binary for _, binary in request.outputs) for row in rows):
        return None
    ends: dict[str, slice] = {}
    total = 0
    for row in rows:
        size = row["parameters"]["binary_data_size"]
        ends[row["name"]] = slice(total, total + size)
        total += size
    places = [
        (tensor.datatype, tensor.shape, ends[one.name])
        for one, tensor in zip(spec.inputs, request.inputs)
    ]
    if len(heads) >= limits.HEADS_KEPT:
        del heads[next(iter(heads))]
    heads[head] = known = Known(places, total, request.outputs)
    return known


def read_json(text: bytes) -> dict[str, Any]:
    """Raises Problem for what is no JSON, or no object."""
    try:
        given = orjson.loads(text)
    except ValueError as error:
        raise Problem(400, f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise Problem(400, f"the body is a {type(given).__name__}: give an object")
    return given


def written(document: Any) -> bytes:
    """The JSON of it."""
    try:
        return orjson.dumps(document)
    except TypeError:  # a text that is no UTF-8, such as the name of a file: with escapes
        return json.dumps(document).encode()


def _id(given: dict[str, Any]) -> str | None:
    id = given.get("id")
    if id is not None and not isinstance(id, str):
        raise Problem(400, f"id is {id!r}: give a text")
    return id


def _inputs(spec: Spec, given: dict[str, Any], binary: memoryview) -> list[Tensor]:
    rows = given.get("inputs")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Problem(400, "inputs: give a list of objects with name, datatype, shape and data")
    found: dict[str, Tensor] = {}
    at = 0
    for row in rows:
        name = row.get("name")
        if not isinstance(name, str) or name in found:
            raise Problem(400, f"an input's name is {name!r}: give each of them once")
        tensor, used = _tensor(name, row, binary[at:])
        found[name], at = tensor, at + used
    if at != len(binary):
        raise Problem(400, f"{len(binary) - at} bytes behind those of the inputs belong to none")
    return in_order(spec, found)


def in_order(spec: Spec, found: dict[str, Tensor]) -> list[Tensor]:
    """The inputs as model.toml has them. Raises Problem for others."""
    names = [one.name for one in spec.inputs]
    for name in found:
        if name not in names:
            raise Problem(
                400, f"there is no input '{name[:200]}'; the model has {', '.join(names)}"
            )
    for name in names:
        if name not in found:
            raise Problem(400, f"input '{name}' is missing")
    return [found[name] for name in names]


def _tensor(name: str, row: dict[str, Any], binary: memoryview) -> tuple[Tensor, int]:
    """The tensor, and how many of the bytes are its own."""
    datatype, shape = row.get("datatype"), row.get("shape")
    check_datatype(name, datatype)
    sized = checked_shape(name, shape)
    parameters = row.get("parameters") or {}
    if not isinstance(parameters, dict) or "shared_memory_region" in parameters:
        raise no_shared_memory(name)
    size = parameters.get("binary_data_size")
    if size is None:
        data = tensors.from_json(name, datatype, sized, row.get("data"))
        return Tensor(datatype, sized, data), 0
    if type(size) is not int or not 0 <= size <= len(binary):
        raise Problem(400, f"input '{name}' has {size!r} bytes, and {len(binary)} are left")
    return Tensor(datatype, sized, binary[:size].tobytes()), size


def check_datatype(name: str, datatype: Any) -> None:
    """Raises Problem for one that is not served."""
    if datatype not in tensors.DATATYPES:
        known = ", ".join(tensors.DATATYPES)
        raise Problem(400, f"input '{name}' has datatype {datatype!r}: give {known}")


def no_shared_memory(name: str) -> Problem:
    return Problem(400, f"input '{name}': shared memory is not taken here, send its bytes")


def no_output(name: Any, names: list[str]) -> Problem:
    known = ", ".join(names)
    return Problem(400, f"there is no output {str(name)[:200]!r}; the model has {known}")


def no_output_parameters(name: str) -> Problem:
    return Problem(400, f"output '{name}': only binary_data is taken of its parameters")


def checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Raises Problem for what is no shape."""
    if (
        not isinstance(shape, list)
        or len(shape) > limits.DIMENSIONS
        or any(type(n) is not int or not 0 <= n < _MOST_ELEMENTS for n in shape)
    ):
        raise Problem(
            400,
            f"input '{name}' has shape {str(shape)[:200]}: give a list of at most "
            f"{limits.DIMENSIONS} sizes",
        )
    return tuple(shape)


def _outputs(spec: Spec, given: dict[str, Any]) -> list[tuple[int, bool]]:
    parameters = given.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Problem(400, "parameters: give an object")
    binary = parameters.get("binary_data_output") is True
    rows = given.get("outputs")
    if rows is None:
        return [(index, binary) for index in range(len(spec.outputs))]
    names = [one.name for one in spec.outputs]
    wanted = []
    if not isinstance(rows, list) or not rows:
        raise Problem(400, "outputs: give a list of objects with name, or leave it out for all")
    for row in rows:
        if not isinstance(row, dict):
            raise Problem(400, f"outputs: {str(row)[:200]!r} is no object with name")
        name = row.get("name")
        if name not in names:
            raise no_output(name, names)
        own = row.get("parameters") or {}
        if not isinstance(own, dict) or "shared_memory_region" in own or own.get("classification"):
            raise no_output_parameters(name)
        wanted.append((names.index(name), own.get("binary_data", binary) is True))
    return wanted


def answer(
    name: str, version: str, spec: Spec, request: Request, outputs: list[Tensor]
) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON where bytes follow. Raises Problem for values that JSON
    has not."""
    known = request.known
    if known is not None:
        shapes = [outputs[index].shape for index, _ in request.outputs]
        if known.answered[0] == shapes:
            head = known.answered[1]
            return b"".join([head, *(outputs[i].data for i, _ in request.outputs)]), len(head)
    rows, parts = [], []
    for index, as_binary in request.outputs:
        tensor, own = outputs[index], spec.outputs[index].name
        row: dict[str, Any] = {
            "name": own,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if as_binary:
            row["parameters"] = {"binary_data_size": len(tensor.data)}
            parts.append(tensor.data)
        else:
            row["data"] = tensors.to_json(own, tensor)
        rows.append(row)
    told: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": rows}
    if request.id is not None:
        told["id"] = request.id
    head = written(told)
    if known is not None:
        known.answered = (shapes, head)
    return (b"".join([head, *parts]), len(head)) if parts else (head, None)
