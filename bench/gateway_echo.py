"""The HTTP server of `laneway serve`, with its doors, over nothing: a POST is answered with its own
body. Prints its port."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from laneway.serve.app import Answer, App
from laneway.serve.doors import Doors
from laneway.serve.room import Room
from laneway.serve.server import server_of
from laneway.web.listen import Place, opened


class Echo:
    async def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        return Answer(200, body)


def main() -> None:
    listening, place = opened(Place("127.0.0.1", 0))
    print(f"echo ready: http://{place.netloc()}", flush=True)
    doors = Doors(cast(App, Echo()), place, Room(), None)
    asyncio.run(server_of(doors).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
