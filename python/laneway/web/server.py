"""Runs `laneway web`: the watch, the routes behind their doors, and the HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from laneway.web import limits
from laneway.web.app import App
from laneway.web.doors import Doors
from laneway.web.listen import Place, forget, opened
from laneway.web.streams import Streams
from laneway.web.watch import Asked, Watch


class _Protocol(HttpToolsProtocol):
    """Ends a connection whose request does not begin to make sense: a head that does not come, or
    does not end. Lets a stream end its own connection without waiting for the reader."""

    _patience: asyncio.TimerHandle | None = None
    _head_bytes: int | None = 0  # None: the head is there

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=limits.BUFFER_BYTES)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > limits.BODY_BYTES * 2:
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["laneway.abort"] = self.transport.abort
        if self._head_bytes is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._head_bytes = 0
        self._patience = self.loop.call_later(limits.HEAD_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._head_bytes = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The signals are ours."""
        yield


def serve(place: Place, token: str, address: str | None) -> None:
    """Prints the ready line and serves until SIGTERM or SIGINT. Raises errors.Refused when the
    place cannot be had."""
    listening, place = opened(place)
    try:
        asyncio.run(_serve(listening, place, token, address))
    finally:
        listening.close()
        forget(place)


async def _serve(listening: socket.socket, place: Place, token: str, address: str | None) -> None:
    asked = Asked(address)
    watch = Watch(asked.status, asked.close, lambda: streams.wake())
    streams = Streams(watch.seen)
    doors = Doors(App(watch, streams, address).asgi, place, token)
    server = _Server(
        uvicorn.Config(
            doors,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.CONNECTIONS,
            timeout_graceful_shutdown=limits.STOP_S,
        )
    )

    def stop() -> None:
        server.should_exit = True
        streams.end()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    streams.begin()
    watch.start()
    where = f"unix:{place.path}" if place.path else f"http://{place.netloc()}/"
    print(f"laneway web ready: {where}?token={token}", flush=True)
    try:
        await server.serve(sockets=[listening])
    finally:
        await asyncio.to_thread(watch.stop)
