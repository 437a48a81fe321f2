"""Runs `laneway serve`: the gateway, its routes behind their doors, and the HTTP server."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import sys
from typing import Any

from laneway.serve import limits
from laneway.serve.app import App
from laneway.serve.doors import Doors
from laneway.serve.gateway import Gateway
from laneway.serve.repository import Repository
from laneway.serve.room import Room
from laneway.serve.scratch import Scratch
from laneway.web.connections import Protocol, Server
from laneway.web.listen import Place, forget, opened


class _Protocol(Protocol):
    most_head_bytes = limits.HEAD_BYTES


@dataclasses.dataclass(frozen=True)
class Options:
    """`rpc`: where gRPC is answered, if anywhere."""

    models: str
    place: Place
    rpc: Place | None
    key: str | None
    address: str | None
    scratch: str | None


def serve(options: Options) -> None:
    """Prints the ready line and serves until SIGTERM or SIGINT. Raises errors.Refused when the
    place cannot be had, errors.InvalidInput for folders that are not fit."""
    repository = Repository(options.models)
    listening, place = opened(options.place)
    try:
        with Scratch(options.scratch) as scratch:
            asyncio.run(_serve(listening, place, options, repository, scratch))
    finally:
        listening.close()
        forget(place)


def server_of(application: Any) -> Server:
    """The HTTP server around an application."""
    return Server(
        application,
        http=_Protocol,
        date_header=False,
        limit_concurrency=limits.CONNECTIONS,
        timeout_keep_alive=limits.IDLE_S,
        timeout_graceful_shutdown=limits.STOP_S,
    )


def _rpc_doors(gateway: Gateway, room: Room, key: str | None) -> Any:
    from laneway.serve.rpc import Rpc  # the libraries only where gRPC is asked for
    from laneway.serve.rpc_doors import RpcDoors

    return RpcDoors(Rpc(gateway), room, key)


async def _serve(
    listening: socket.socket,
    place: Place,
    options: Options,
    repository: Repository,
    scratch: Scratch,
) -> None:
    gateway = Gateway(repository, scratch, options.address)
    room = Room()
    server = server_of(Doors(App(gateway), place, room, options.key))
    where = f"unix:{place.path}" if place.path else f"http://{place.netloc()}"
    rpc = None
    if options.rpc is not None:
        rpc = _rpc_doors(gateway, room, options.key)
        where += f" grpc://{rpc.open(options.rpc).netloc()}"

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await gateway.begin()
    if rpc is not None:
        await rpc.begin()
    names = ",".join(repository.names())
    if options.key is None:
        told = "it answers whoever reaches it on this machine, as --api-key-file was not given"
        print(f"laneway serve: {told}", file=sys.stderr, flush=True)
    print(f"laneway serve ready: {where} models {names} pid {os.getpid()}", flush=True)
    try:
        await server.serve(sockets=[listening])
    finally:
        if rpc is not None:
            await rpc.end()
        await gateway.close()
