"""Runs `laneway web`: the watch, the routes behind their doors, and the HTTP server."""

from __future__ import annotations

import asyncio
import signal
import socket

from laneway.web import limits
from laneway.web.app import App
from laneway.web.connections import Protocol, Server
from laneway.web.doors import Doors
from laneway.web.listen import Place, forget, opened
from laneway.web.streams import Streams
from laneway.web.watch import Asked, Watch


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
    server = Server(
        doors,
        http=Protocol,
        limit_concurrency=limits.CONNECTIONS,
        timeout_graceful_shutdown=limits.STOP_S,
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
