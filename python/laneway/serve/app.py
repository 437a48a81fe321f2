"""The routes of `laneway serve`."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

import laneway
from laneway.serve import kserve, limits, openai
from laneway.serve.gateway import Gateway
from laneway.serve.metrics import CONTENT_TYPE, Metrics
from laneway.serve.model import Model
from laneway.serve.problem import Problem

EXTENSIONS = ["binary_tensor_data", "model_repository", "statistics"]


class Answer:
    """Code, body and headers beyond the length."""

    __slots__ = ("code", "body", "headers")

    def __init__(
        self, code: int, body: Any, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        self.code = code
        self.body = body if isinstance(body, bytes) else kserve.written(body)
        self.headers = headers or [(b"content-type", b"application/json")]

    async def send(self, send: Any) -> None:
        length = (b"content-length", b"%d" % len(self.body))
        start = {"type": "http.response.start", "status": self.code}
        await send({**start, "headers": [*self.headers, length]})
        await send({"type": "http.response.body", "body": self.body})


def refusal(problem: Problem, of_openai: bool = False) -> Answer:
    told: Any = problem.why
    if of_openai:
        kind = "invalid_request_error" if problem.code < 500 else "server_error"
        told = {"message": problem.why, "type": kind, "param": None, "code": None}
    headers = [(b"content-type", b"application/json")]
    if problem.retry_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_s))
    return Answer(problem.code, {"error": told}, headers)


class App:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Of one request that was let in. Raises nothing but asyncio.CancelledError."""
        of_openai = path.startswith("/v1/")
        try:
            parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
            return await self._routed(method, parts, headers, body)
        except Problem as problem:
            return refusal(problem, of_openai)

    async def _routed(self, method: str, parts: list[str], headers: Any, body: bytes) -> Answer:
        match method, *parts:
            case "POST", "v2", "models", name, "infer":
                return await self._infer(self._gateway.model(name), headers, body)
            case "POST", "v2", "models", name, "versions", version, "infer":
                return await self._infer(self._gateway.model(name, version), headers, body)
            case "GET", "v2", *rest:
                return self._asked(rest)
            case "POST", "v2", "repository", *rest:
                return await self._repository(rest, body)
            case "GET", "v1", "models":
                return Answer(200, openai.models(self._gateway))
            case "GET", "v1", "models", name:
                return Answer(200, openai.model(self._gateway, name))
            case "POST", "v1", "embeddings":
                return Answer(200, await openai.embeddings(self._gateway, kserve.read_json(body)))
            case "GET", "metrics":
                loaded, there = self._gateway.loaded(), self._gateway.link.there
                text = await asyncio.to_thread(Metrics(loaded, there).text)
                return Answer(200, text, [(b"content-type", CONTENT_TYPE.encode())])
            case "GET", "healthz":
                return Answer(200, {"serve": "ready", "service": self._service()})
        raise Problem(404, f"there is no {method} /{'/'.join(parts)[:200]}")

    def _service(self) -> str:
        return "ready" if self._gateway.link.there else "away"

    def _asked(self, parts: list[str]) -> Answer:
        match parts:
            case [] | [""]:
                told = {"name": "laneway", "version": laneway.__version__}
                return Answer(200, {**told, "extensions": EXTENSIONS})
            case ["health", "live"]:
                return Answer(200, {})
            case ["health", "ready"]:
                if not self._gateway.link.there:
                    raise Problem(503, "the service is away", limits.RETRY_S)
                return Answer(200, {})
            case ["models", "stats"]:
                return Answer(200, self._gateway.statistics(None, None))
            case ["models", name, "versions", version, *rest]:
                return self._of_model(name, version, rest)
            case ["models", name, *rest]:
                return self._of_model(name, None, rest)
        raise Problem(404, f"there is no GET /v2/{'/'.join(parts)[:200]}")

    def _of_model(self, name: str, version: str | None, rest: list[str]) -> Answer:
        model = self._gateway.model(name, version)
        match rest:
            case []:
                return Answer(200, metadata(self._gateway, model))
            case ["ready"]:
                # A model that is not loaded is ready for requests: the first one loads it.
                if model.failed is not None:
                    raise model.failed
                return Answer(200, {})
            case ["stats"]:
                return Answer(200, self._gateway.statistics(name, version))
            case ["config"]:
                return Answer(200, config(model))
        raise Problem(404, f"there is no GET /v2/models/{name}/{'/'.join(rest)[:200]}")

    async def _repository(self, parts: list[str], body: bytes) -> Answer:
        given = kserve.read_json(body) if body.strip() else {}
        match parts:
            case ["index"]:
                return Answer(200, self._gateway.index(given.get("ready") is True))
            case ["models", name, "load"]:
                if given.get("parameters"):
                    raise Problem(
                        400, "a model is loaded from its folder: load takes no parameters"
                    )
                await self._gateway.load(name)
                return Answer(200, {})
            case ["models", name, "unload"]:
                await self._gateway.unload(name)
                return Answer(200, {})
        raise Problem(404, f"there is no POST /v2/repository/{'/'.join(parts)[:200]}")

    async def _infer(self, model: Model, headers: Any, body: bytes) -> Answer:
        length = next((v.decode("latin-1") for k, v in headers if k == kserve.HEADER_LENGTH), None)
        request = kserve.parsed(model.spec, body, length, model.heads)
        outputs = await model.infer(request.inputs)
        facts = model.facts
        made, head = kserve.answer(facts.name, facts.version, model.spec, request, outputs)
        if head is None:
            return Answer(200, made)
        kind = (b"content-type", b"application/octet-stream")
        return Answer(200, made, [kind, (kserve.HEADER_LENGTH, b"%d" % head)])


def metadata(gateway: Gateway, model: Model) -> dict[str, Any]:
    return {
        "name": model.facts.name,
        "versions": gateway.repository.versions(model.facts.name) or [model.facts.version],
        "platform": "laneway",
        "inputs": [spec.metadata() for spec in model.spec.inputs],
        "outputs": [spec.metadata() for spec in model.spec.outputs],
    }


def config(model: Model) -> dict[str, Any]:
    """What clients of Triton ask for."""
    spec = model.spec
    batched = 1 if spec.batched() else 0
    return {
        "name": model.facts.name,
        "platform": "laneway",
        "max_batch_size": spec.max_batch if batched else 0,
        "input": [_configured(one, batched) for one in spec.inputs],
        "output": [_configured(one, batched) for one in spec.outputs],
    }


def _configured(spec: Any, batched: int) -> dict[str, Any]:
    dims = list(spec.shape[batched:])
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": dims}


async def quietly(answering: Any) -> None:
    """Awaits it; a caller who has gone is no failure."""
    try:
        await answering
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
