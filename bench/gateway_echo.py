"""The HTTP and gRPC servers of `laneway serve`, with their doors, over nothing: a request is
answered with its own body. Prints where."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from laneway.serve.app import Answer, App
from laneway.serve.doors import Doors
from laneway.serve.room import Room
from laneway.serve.rpc_doors import RpcDoors
from laneway.serve.server import server_of
from laneway.web.listen import Place, opened


class Echo:
    async def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        return Answer(200, body)


class RpcEcho:
    methods, free = ("ModelInfer",), ()

    async def answer(self, method: str, body: bytes) -> bytes:
        return body


async def serve() -> None:
    listening, place = opened(Place("127.0.0.1", 0))
    room = Room()
    doors = Doors(cast(App, Echo()), place, room, None)
    rpc = RpcDoors(RpcEcho(), room, None)
    rpc_place = rpc.open(Place("127.0.0.1", 0))
    await rpc.begin()
    where = f"http://{place.netloc()} grpc://{rpc_place.netloc()}"
    print(f"echo ready: {where}", flush=True)
    await server_of(doors).serve(sockets=[listening])
    await rpc.end()


def main() -> None:
    asyncio.run(serve())


if __name__ == "__main__":
    main()
