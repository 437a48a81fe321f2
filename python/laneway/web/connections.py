"""Connections of an HTTP server: of `laneway web`, and of `laneway serve`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from laneway.web import limits


class Protocol(HttpToolsProtocol):
    """Ends a connection whose request does not begin to make sense: a head that does not come, or
    does not end. Lets a stream end its own connection without waiting for the reader, and tells a
    request, by what it put in scope["laneway.gone"], that its caller has gone."""

    most_head_bytes = 2 * limits.BODY_BYTES  # what comes with the head in one read counts

    _patience: asyncio.TimerHandle | None = None
    _head_bytes: int | None = 0  # None: the head is there

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        opened = transport.get_extra_info("socket")
        if opened.family != socket.AF_UNIX:
            # asyncio knows no protocol of a socket that was made without one. A head and a body
            # are two writes: the second would wait for the other side's delayed acknowledgement.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=limits.BUFFER_BYTES)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        gone = None if self.cycle is None else self.cycle.scope.get("laneway.gone")
        if gone is not None:
            gone()

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > self.most_head_bytes:
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


class Server(uvicorn.Server):
    """An HTTP server around an application, with what all of ours have; `settings` are more of
    uvicorn.Config's."""

    def __init__(self, application: Any, **settings: Any) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                **settings,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The signals are ours."""
        yield
