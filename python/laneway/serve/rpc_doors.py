"""The gRPC server of `laneway serve`. The key is the one of HTTP, and is looked at before a message
is read; messages are bounded, all together, too; a caller who goes away, or whose deadline has
passed, cancels. A page in a browser cannot speak gRPC by itself, so there is no Host to check."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Protocol

import grpc
import grpc.aio

from laneway.errors import Refused
from laneway.serve import limits
from laneway.serve.messages import SERVICE
from laneway.serve.problem import Problem
from laneway.serve.room import Room
from laneway.web.doors import bearer_of, fits
from laneway.web.listen import Place

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class Methods(Protocol):
    """What is behind the doors. `free` are the methods that need no key."""

    methods: tuple[str, ...]
    free: tuple[str, ...]

    async def answer(self, method: str, body: bytes) -> bytes: ...


class RpcDoors:
    """Belongs to the event loop."""

    def __init__(self, inside: Methods, room: Room, key: str | None) -> None:
        self._inside, self._room, self._key = inside, room, key
        self._reads = asyncio.Semaphore(limits.READS)
        # A call with one message is the same for the caller whether the server takes it for a
        # stream or not; as a stream it is read when its caller was let in, not before.
        handlers = {
            name: grpc.stream_unary_rpc_method_handler(self._handler(name))
            for name in inside.methods
        }
        self._server = grpc.aio.server(
            handlers=[grpc.method_handlers_generic_handler(SERVICE, handlers)],
            maximum_concurrent_rpcs=limits.CONNECTIONS,
            options=[
                ("grpc.max_receive_message_length", limits.BODY_BYTES),
                ("grpc.max_allowed_incoming_connections", limits.CONNECTIONS),
                ("grpc.max_connection_idle_ms", limits.IDLE_S * 1000),
                ("grpc.so_reuseport", 0),  # else two gateways would share a port unnoticed
                # What is small on its way could be larger than the bound when it is unpacked.
                ("grpc.compression_enabled_algorithms_bitset", 1),
            ],
        )

    def open(self, place: Place) -> Place:
        """The place with the port that it has. Raises Refused when it cannot be had."""
        try:
            port = self._server.add_insecure_port(place.netloc())
        except RuntimeError as error:
            raise Refused(f"cannot listen on {place.netloc()} for gRPC: {error}") from None
        return dataclasses.replace(place, port=port)

    async def begin(self) -> None:
        await self._server.start()

    async def end(self) -> None:
        """Takes no more calls; those under way may end for a while."""
        await self._server.stop(limits.STOP_S)

    def _handler(self, method: str) -> Any:
        async def handle(_: Any, context: Any) -> bytes:
            held = 0
            try:
                self._check_key(method, context)
                body = await self._read(context)
                self._room.take(len(body))
                held = len(body)
                return await self._inside.answer(method, body)
            except Problem as problem:
                refused = problem
            finally:
                self._room.give(held)
            pushback = ()
            if refused.retry_s is not None:
                pushback = (("grpc-retry-pushback-ms", str(refused.retry_s * 1000)),)
            await context.abort(_CODES[refused.code], _cut(refused.why), pushback)
            raise AssertionError("abort raises")

        return handle

    def _check_key(self, method: str, context: Any) -> None:
        if self._key is None or method in self._inside.free:
            return
        values = [v for k, v in context.invocation_metadata() if k == "authorization"]
        if len(values) != 1 or not fits(bearer_of({"authorization": values[0]}), self._key):
            raise Problem(401, "no key, or another one: send authorization: Bearer KEY")

    async def _read(self, context: Any) -> bytes:
        """The message. Few are read at once: how long one is stands nowhere before it is there."""
        try:
            async with asyncio.timeout(limits.BODY_S), self._reads:
                body = await context.read()
        except TimeoutError:
            why = f"the message did not come within {limits.BODY_S:g} s"
            raise Problem(408, why, limits.RETRY_S) from None
        if body is grpc.aio.EOF:
            raise Problem(400, "the call has no message")
        return body


def _cut(why: str) -> str:
    """Of a long sentence its beginning: a client takes some KiB of a status."""
    told = why.encode()[: limits.STATUS_BYTES].decode(errors="ignore")
    return told if told == why else f"{told} …"
