"""Streams: the pages that are open. Each gets what it lacks after each look at the service; one
that does not take it is dropped and counted, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse

from laneway.web import limits
from laneway.web.watch import Look


class Streams:
    """GET /api/events as an ASGI application. Everything but wake() is called in one event loop.

    Events: `status` (the whole document, first and whenever a change is not enough), `change` (see
    changes.difference), `away` (no service answers: {"why"}), `minute`, `happened` (a list) and
    `whose`."""

    def __init__(self, seen: Callable[[], Look]) -> None:
        self._seen = seen
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._ended = False
        self.open, self.slow_total, self.refused_total = 0, 0, 0

    def begin(self) -> None:
        """Called in the loop in which the streams run."""
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """After a look; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()

    def end(self) -> None:
        """Ends all streams."""
        self._ended = True
        self._wake()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.open >= limits.STREAMS:
            self.refused_total += 1
            why = f"{limits.STREAMS} pages are open, which is the most: close one"
            await JSONResponse({"error": why}, 503, {"retry-after": "5"})(scope, receive, send)
            return
        self.open += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await self._serve(scope, send, gone)
        finally:
            self.open -= 1
            gone.cancel()

    async def _serve(self, scope: Any, send: Any, gone: asyncio.Future[None]) -> None:
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        known: Look | None = None
        while not self._ended and not gone.done():
            look, woken = self._seen(), self._woken
            text = lacking(known, look).encode()
            known = look
            try:
                async with asyncio.timeout(limits.SLOW_READER_S):
                    await send({"type": "http.response.body", "body": text, "more_body": True})
            except TimeoutError:
                self.slow_total += 1
                scope["laneway.abort"]()
                return
            waiting = asyncio.ensure_future(woken.wait())
            await asyncio.wait(  # a service that says nothing brings no look that wakes
                {waiting, gone}, timeout=limits.SILENT_S, return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def lacking(known: Look | None, look: Look) -> str:
    """The events that bring a page which has `known` to `look`."""
    parts = []
    if look.status is None:
        parts.append(_event("away", json.dumps({"why": look.why})))
    elif known is None or known.status is None:
        parts.append(_event("status", look.text))
    elif known.number == look.number - 1 and look.change is not None:
        parts.append(_event("change", look.change))
    elif known.number != look.number:
        parts.append(_event("status", look.text))
    parts.append(_event("minute", look.minute))
    if known is None or known.events != look.events:
        parts.append(_event("happened", json.dumps(look.events)))
    if known is None or known.whose != look.whose:
        parts.append(_event("whose", look.whose))
    return "".join(parts)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"  # JSON has no line break outside of its texts
