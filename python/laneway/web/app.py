"""The routes of `laneway web`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from laneway import errors
from laneway.web import actions, limits
from laneway.web.metrics import Collector
from laneway.web.streams import Streams
from laneway.web.watch import Watch

_STATIC = Path(__file__).with_name("static")


class App:
    """The application, without its doors. `address` is where actions go."""

    def __init__(self, watch: Watch, streams: Streams, address: str | None) -> None:
        self._watch, self._streams, self._address = watch, streams, address
        self._collector = Collector(streams)
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)
        self._acting = 0
        self.asgi = Starlette(
            routes=[
                Route("/", self._page),
                Route("/healthz", self._health),
                Route("/metrics", self._metrics),
                Route("/api/status", self._status),
                Route("/api/events", streams),
                Route("/api/{verb}", self._act, methods=["POST"]),
                Mount("/static", StaticFiles(directory=_STATIC)),
            ]
        )

    async def _page(self, request: Request) -> Response:
        return FileResponse(_STATIC / "index.html")

    async def _health(self, request: Request) -> Response:
        service = "ready" if self._watch.seen().status is not None else "away"
        return JSONResponse({"web": "ready", "service": service})

    async def _status(self, request: Request) -> Response:
        look = self._watch.seen()
        if look.status is None:
            return JSONResponse({"error": look.why}, 503)
        return Response(look.text, media_type="application/json")

    async def _metrics(self, request: Request) -> Response:
        self._collector.look = self._watch.seen()
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def _act(self, request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in actions.VERBS:
            known = ", ".join(actions.VERBS)
            return JSONResponse({"error": f"there is no {verb!r}: {known}"}, 404)
        if self._acting >= limits.ACTIONS:
            why = f"{limits.ACTIONS} requests to the service are under way: try again"
            return JSONResponse({"error": why}, 503, {"retry-after": "1"})
        self._acting += 1
        try:
            given: Any = json.loads(await request.body())
            done = await _apart(actions.act, verb, given, self._address)
        except (ValueError, OverflowError, RecursionError) as error:
            # InvalidInput is a ValueError: what the service found wrong is its refusal.
            if isinstance(error, errors.InvalidInput):
                return JSONResponse({"error": str(error)}, 409)
            return JSONResponse({"error": f"the body is no JSON: {error}"}, 400)
        except actions.BadRequest as error:
            return JSONResponse({"error": str(error)}, 400)
        except errors.ServiceUnavailable as error:
            return JSONResponse({"error": str(error)}, 503)
        except errors.Error as error:
            return JSONResponse({"error": str(error)}, 409)
        finally:
            self._acting -= 1
        return JSONResponse(done)


async def _apart(do: Callable[..., Any], *given: Any) -> Any:
    """What do(*given) returns, from a thread that keeps no process from ending: a service that says
    nothing may keep it for minutes."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if answer.done():  # cancelled: the program ends
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = do(*given)
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="laneway-web-action", daemon=True).start()
    return await answer
