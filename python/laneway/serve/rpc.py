"""KServe v2 over gRPC: what each method answers. A message that was let in goes in as bytes, and
the answer comes out as bytes; the server around it is in rpc_doors.py."""

from __future__ import annotations

import array
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

import laneway
from laneway.serve import kserve, tensors
from laneway.serve.app import EXTENSIONS, config, metadata
from laneway.serve.gateway import Gateway
from laneway.serve.messages import CLASSES
from laneway.serve.model import Model
from laneway.serve.problem import Problem
from laneway.serve.spec import Spec
from laneway.serve.tensors import Tensor

# By datatype the field of a tensor's numbers, where they do not come as bytes.
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
_InferRequest, _InferResponse = CLASSES["ModelInferRequest"], CLASSES["ModelInferResponse"]


class Rpc:
    """Belongs to the event loop."""

    free = ("ServerLive", "ServerReady")  # answer without a key: whether it lives

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._documents = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._metadata,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }
        self.methods = ("ModelInfer", *self._documents)

    async def answer(self, method: str, body: bytes) -> bytes:
        """Raises Problem."""
        if method == "ModelInfer":
            return await self._infer(_parsed(_InferRequest, body))
        request = _parsed(CLASSES[f"{method}Request"], body)
        told = await self._documents[method](request)
        response = CLASSES[f"{method}Response"]()
        # Of the statistics HTTP tells more than the protocol's message has.
        json_format.ParseDict(told, response, ignore_unknown_fields=method == "ModelStatistics")
        return response.SerializeToString()

    def _model(self, request: Any) -> Model:
        return self._gateway.model(request.name, request.version or None)

    async def _live(self, request: Any) -> dict[str, Any]:
        return {"live": True}

    async def _ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._gateway.link.there}

    async def _server(self, request: Any) -> dict[str, Any]:
        extensions = [one for one in EXTENSIONS if one != "binary_tensor_data"]  # HTTP's own
        return {"name": "laneway", "version": laneway.__version__, "extensions": extensions}

    async def _model_ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._model(request).failed is None}

    async def _metadata(self, request: Any) -> dict[str, Any]:
        return metadata(self._gateway, self._model(request))

    async def _config(self, request: Any) -> dict[str, Any]:
        return {"config": config(self._model(request))}

    async def _statistics(self, request: Any) -> dict[str, Any]:
        return self._gateway.statistics(request.name or None, request.version or None)

    async def _index(self, request: Any) -> dict[str, Any]:
        return {"models": self._gateway.index(request.ready)}

    async def _load(self, request: Any) -> dict[str, Any]:
        if request.parameters:
            raise Problem(400, "a model is loaded from its folder: load takes no parameters")
        await self._gateway.load(request.model_name)
        return {}

    async def _unload(self, request: Any) -> dict[str, Any]:
        await self._gateway.unload(request.model_name)
        return {}

    async def _infer(self, request: Any) -> bytes:
        model = self._gateway.model(request.model_name, request.model_version or None)
        given, wanted = _inputs(model.spec, request), _wanted(model.spec, request)
        outputs = await model.infer(given)
        made = _InferResponse(
            model_name=model.facts.name, model_version=model.facts.version, id=request.id
        )
        for index in wanted:
            tensor = outputs[index]
            made.outputs.add(
                name=model.spec.outputs[index].name, datatype=tensor.datatype, shape=tensor.shape
            )
            made.raw_output_contents.append(bytes(tensor.data))
        return made.SerializeToString()


def _parsed(message: Any, body: bytes) -> Any:
    try:
        return message.FromString(body)
    except DecodeError as error:
        raise Problem(400, f"the message is no {message.DESCRIPTOR.name}: {error}") from None


def _inputs(spec: Spec, request: Any) -> list[Tensor]:
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise Problem(
            400,
            f"raw_input_contents has {len(raw)} entries for {len(request.inputs)} inputs: give one "
            "for each, or none",
        )
    found: dict[str, Tensor] = {}
    for index, row in enumerate(request.inputs):
        if not row.name or row.name in found:
            raise Problem(400, f"an input's name is {row.name!r}: give each of them once")
        kserve.check_datatype(row.name, row.datatype)
        shape = kserve.checked_shape(row.name, list(row.shape))
        if any(one.key == "shared_memory_region" for one in row.parameters):
            raise kserve.no_shared_memory(row.name)
        data = raw[index] if raw else _packed(row)
        found[row.name] = Tensor(row.datatype, shape, data)
    return kserve.in_order(spec, found)


def _packed(row: Any) -> bytes:
    """The bytes of numbers that have come as such."""
    field = _CONTENTS.get(row.datatype)
    filled = [one.name for one, _ in row.contents.ListFields()]
    if field is None or (filled and filled != [field]):
        takes = f"contents.{field} or " if field else ""
        raise Problem(
            400,
            f"input '{row.name}' is {row.datatype} and has {', '.join(filled) or 'no contents'}: "
            f"give {takes}raw_input_contents",
        )
    numbers = getattr(row.contents, field)
    try:
        return array.array(tensors.array_code(row.datatype), numbers).tobytes()
    except OverflowError as error:
        raise Problem(400, f"input '{row.name}' is {row.datatype}: {error}") from None


def _wanted(spec: Spec, request: Any) -> list[int]:
    """Of each output that is wanted its place in the model."""
    names = [one.name for one in spec.outputs]
    if not request.outputs:
        return list(range(len(names)))
    for row in request.outputs:
        if row.name not in names:
            raise kserve.no_output(row.name, names)
        if any(one.key in ("shared_memory_region", "classification") for one in row.parameters):
            raise kserve.no_output_parameters(row.name)
    return [names.index(row.name) for row in request.outputs]
