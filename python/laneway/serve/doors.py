"""The doors of `laneway serve`: Host and Origin are checked as for `laneway web`, the key where
there is one; bodies are read up to a bound, all together, too; a caller who hangs up cancels."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway.serve import limits
from laneway.serve.app import App, quietly, refusal
from laneway.serve.problem import Problem
from laneway.serve.room import Room
from laneway.web.doors import Closed, bearer_of, body, few, fits
from laneway.web.listen import Place, hosts_of, known_host

# What answers without a key: whether it lives.
_FREE = ("/healthz", "/v2/health/live", "/v2/health/ready")


class Doors:
    """An ASGI application around the routes. `place` has the port that was chosen."""

    def __init__(self, app: App, place: Place, room: Room, key: str | None) -> None:
        self._app, self._place, self._room, self._key = app, place, room, key
        self._hosts = hosts_of(place)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        assert task is not None
        scope["laneway.gone"] = task.cancel
        await quietly(self._answer(scope, receive, send))

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        held = 0
        try:
            headers = few(scope["headers"])
            self._check(scope, headers)
            given = b""
            if scope["method"] == "POST":
                held = self._hold(headers)
                given = await body(headers, receive, limits.BODY_BYTES, limits.BODY_S)
            answer = await self._app.answer(scope["method"], scope["path"], scope["headers"], given)
        except Closed as closed:
            answer = refusal(Problem(closed.code, closed.why))
            answer.headers.append((b"connection", b"close"))
        except Problem as problem:
            answer = refusal(problem)
            answer.headers.append((b"connection", b"close"))
        finally:
            self._room.give(held)
        scope.pop("laneway.gone", None)
        await answer.send(send)

    def _check(self, scope: Any, headers: dict[str, str]) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not known_host(self._place, host, self._hosts):
            raise Closed(421, f"Host {host!r} is not this program: use the address it printed")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise Closed(403, f"Origin {origin!r} is a page of somebody else")
        is_free = scope["path"] in _FREE and scope["method"] == "GET"  # a body takes room of all
        if self._key is None or is_free:
            return
        if not fits(bearer_of(headers), self._key):
            raise Closed(401, "no key, or another one: send Authorization: Bearer KEY")

    def _hold(self, headers: dict[str, str]) -> int:
        """How much of all bodies' bound this one takes. Raises Problem at the bound."""
        text = headers.get("content-length")
        length = limits.BODY_BYTES if text is None or not text.isdigit() else int(text[:12])
        length = min(length, limits.BODY_BYTES)
        self._room.take(length)
        return length
