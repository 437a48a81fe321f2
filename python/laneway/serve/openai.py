"""What of OpenAI's interface is served: the list of models, and embeddings.

The model's first input takes tokens, INT32 or INT64 of shape [-1, -1] or [-1, LENGTH]; its first
output is FP32 of shape [-1, N]. Texts need a tokenizer.json in the model's folder."""

from __future__ import annotations

import array
import asyncio
import base64
import time
from typing import Any

from laneway.serve import limits, tensors
from laneway.serve.gateway import Gateway
from laneway.serve.model import Model
from laneway.serve.problem import Problem
from laneway.serve.tensors import Tensor

STARTED_S = int(time.time())


def models(gateway: Gateway) -> dict[str, Any]:
    rows = [
        {"id": name, "object": "model", "created": STARTED_S, "owned_by": "laneway"}
        for name in gateway.repository.names()
    ]
    return {"object": "list", "data": rows}


def model(gateway: Gateway, name: str) -> dict[str, Any]:
    """Raises Problem."""
    if not gateway.repository.has(name):
        raise Problem(404, f"there is no model '{name[:200]}'")
    return {"id": name, "object": "model", "created": STARTED_S, "owned_by": "laneway"}


async def embeddings(gateway: Gateway, given: dict[str, Any]) -> dict[str, Any]:
    """Raises Problem."""
    name, encoding = given.get("model"), given.get("encoding_format", "float")
    if not isinstance(name, str):
        raise Problem(400, f"model is {name!r}: give the name of one")
    if encoding not in ("float", "base64"):
        raise Problem(400, f"encoding_format is {encoding!r}: give float or base64")
    served = gateway.model(name)
    _check(served)
    if given.get("dimensions") not in (None, served.spec.outputs[0].shape[1]):
        raise Problem(400, "dimensions: this model's embeddings cannot be shortened")
    every = await _tokens(served, given.get("input"))
    # A list leaves half of the model's queue to others, and one longer than the queue passes.
    room = asyncio.Semaphore(max(1, served.spec.queue // 2))
    calls = [asyncio.ensure_future(_one(served, tokens, room)) for tokens in every]
    try:
        vectors = await asyncio.gather(*calls)
    except BaseException:
        for call in calls:
            call.cancel()
        raise
    used = sum(map(len, every))
    rows = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, encoding)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {"object": "list", "data": rows, "model": name, "usage": usage}


def _check(served: Model) -> None:
    spec = served.spec
    takes, gives = spec.inputs[0], spec.outputs[0]
    if (
        len(spec.inputs) != 1
        or takes.datatype not in ("INT32", "INT64")
        or len(takes.shape) != 2
        or gives.datatype != "FP32"
        or len(gives.shape) != 2
    ):
        raise Problem(
            400,
            f"'{served.facts.name}' makes no embeddings: its one input must be INT32 or INT64 of "
            "two dimensions, its first output FP32 of two",
        )


async def _tokens(served: Model, given: Any) -> list[list[int]]:
    if isinstance(given, str) or (isinstance(given, list) and given and type(given[0]) is int):
        given = [given]
    if not isinstance(given, list) or not 1 <= len(given) <= limits.INPUTS_OF_A_LIST:
        raise Problem(
            400, f"input: give a text, tokens, or a list of 1 to {limits.INPUTS_OF_A_LIST} of them"
        )
    if all(isinstance(one, str) for one in given):
        given = await asyncio.to_thread(_of_texts, served, given)
    for one in given:
        if not isinstance(one, list) or not one or any(type(token) is not int for token in one):
            raise Problem(
                400, "input: each is a text, or a list of whole numbers that is not empty"
            )
    return given


def _of_texts(served: Model, texts: list[str]) -> list[list[int]]:
    path = served.facts.folder / "tokenizer.json"
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        return [tokenizer.encode(text).ids for text in texts]
    except ModuleNotFoundError:
        raise Problem(
            400, "texts need the library tokenizers, which the gateway has not: send tokens"
        ) from None
    except Exception as error:  # the library has no class of its own
        raise Problem(400, f"texts need a tokenizer.json in the model's folder: {error}") from None


async def _one(served: Model, tokens: list[int], room: asyncio.Semaphore) -> Any:
    datatype, shape = served.spec.inputs[0].datatype, (1, len(tokens))
    data = tensors.from_json("input", datatype, shape, tokens)
    async with room:
        outputs = await served.infer([Tensor(datatype, shape, data)])
    return outputs[0].data


def _encoded(data: Any, encoding: str) -> Any:
    if encoding == "base64":
        return base64.b64encode(data).decode()
    numbers = array.array("f")
    numbers.frombytes(data)
    return numbers.tolist()
