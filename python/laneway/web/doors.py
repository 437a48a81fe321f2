"""Doors: what every request must pass before anything is done for it. Host, Origin and the token
are checked, bodies are read up to a bound, and each answer has the headers that keep a page to
itself. `laneway serve` has doors of its own, of the same parts."""

from __future__ import annotations

import asyncio
import hmac
import http.cookies
import urllib.parse
from typing import Any

from starlette.responses import JSONResponse

from laneway.web import limits
from laneway.web.listen import Place, hosts_of, known_host

_FREE = "/healthz"  # answers without a token
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Closed(Exception):
    """Why a request is not answered: status code and sentence."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Doors:
    """An ASGI application around another one. `place` has the port that was chosen."""

    def __init__(self, inside: Any, place: Place, token: str) -> None:
        self._inside, self._place, self._token = inside, place, token
        self._hosts = hosts_of(place)
        # Cookies of one host go to all of its ports: each web has a name of its own.
        self.cookie = f"laneway_web_{place.port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers: dict[str, str] = {}
        by_query = False
        try:
            headers = few(scope["headers"])
            self._check_names(scope, headers)
            by_query = self._check_token(scope, headers)
            if scope["method"] == "POST":
                receive = _given(await body(headers, receive, limits.BODY_BYTES, limits.BODY_S))
        except Closed as closed:
            answer = JSONResponse({"error": closed.why}, closed.code, {"connection": "close"})
            await answer(scope, receive, with_headers(send, _HEADERS))
            return
        added = list(_HEADERS)
        if by_query:
            cookie = f"{self.cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            added.append((b"set-cookie", cookie.encode()))
        await self._inside(scope, receive, with_headers(send, added))

    def _check_names(self, scope: Any, headers: dict[str, str]) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not known_host(self._place, host, self._hosts):
            raise Closed(421, f"Host {host!r} is not this program: use the address that it printed")
        if origin is None and scope["method"] == "POST":
            raise Closed(403, f"a POST needs the page's own origin: send Origin: http://{host}")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise Closed(403, f"Origin {origin!r} is another page: only http://{host} may ask")

    def _check_token(self, scope: Any, headers: dict[str, str]) -> bool:
        """Whether the query had the token: then the answer brings the cookie."""
        if scope["path"] == _FREE and scope["method"] in ("GET", "HEAD"):
            return False
        if self._fits(bearer_of(headers)):
            return False
        if self._fits(_cookie(headers.get("cookie", ""), self.cookie)):
            return False
        if scope["method"] == "GET" and self._fits(_query(scope["query_string"], "token")):
            return True
        raise Closed(
            401,
            "no token, or an old one: open the address that `laneway web` printed when it started, "
            "or send Authorization: Bearer TOKEN",
        )

    def _fits(self, text: str) -> bool:
        return fits(text, self._token)


def fits(text: str, token: str) -> bool:
    """Whether it is the token; how long that takes says nothing of the token."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())


def bearer_of(headers: dict[str, str]) -> str:
    """What stands behind Authorization: Bearer; "" without it."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else ""


def few(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that are looked at; each may come once."""
    found: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1")
        if key not in ("host", "origin", "authorization", "cookie", "content-length"):
            continue
        if len(value) > limits.HEAD_FIELD_BYTES:
            raise Closed(431, f"{key} has {len(value)} bytes; at most {limits.HEAD_FIELD_BYTES}")
        if key in found:
            raise Closed(400, f"{key} stands twice in the request")
        found[key] = value.decode("latin-1")
    return found


def _cookie(text: str, name: str) -> str:
    try:
        morsel = http.cookies.SimpleCookie(text).get(name)
    except http.cookies.CookieError:
        return ""
    return morsel.value if morsel else ""


def _query(text: bytes, name: str) -> str:
    try:
        return urllib.parse.parse_qs(text.decode("latin-1"), max_num_fields=16)[name][0]
    except (KeyError, ValueError):  # not there; more fields than anybody sends
        return ""


async def body(headers: dict[str, str], receive: Any, most: int, seconds: float) -> bytes:
    """All of it. Refused by its announced length before anything is read."""
    too_long = Closed(413, f"the body has more than {most} bytes")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length[:12]) > most:
        raise too_long
    parts, count = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Closed(400, "the body ended before its length")
                part = message.get("body", b"")
                parts.append(part)
                count += len(part)
                if count > most:
                    raise too_long
                if not message.get("more_body"):
                    return part if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Closed(408, f"the body did not come within {seconds:.0f} s") from None


def _given(body: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def with_headers(send: Any, headers: list[tuple[bytes, bytes]]) -> Any:
    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return sending
