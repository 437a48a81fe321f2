"""Pages that are open: one that takes nothing is dropped and counted, one that missed a change gets
the whole status, one that missed nothing gets the change alone."""

import asyncio
import dataclasses

from bench import web_stand_in
from laneway.web import limits
from laneway.web.streams import Streams, lacking
from laneway.web.watch import Watch


def looks(count):
    """So many looks at a service that goes on."""
    states = [web_stand_in.status(20, tick) for tick in range(count)]
    watch = Watch(lambda: states.pop(0))
    found = []
    for _ in range(count):
        watch.look()
        found.append(watch.seen())
    return found


def kinds(text):
    return [line[7:] for line in text.splitlines() if line.startswith("event: ")]


def test_who_missed_nothing_gets_the_change_and_who_missed_one_gets_all():
    first, second, third = looks(3)
    assert kinds(lacking(None, first)) == ["status", "minute", "happened", "whose"]
    assert kinds(lacking(first, second)) == ["change", "minute"]
    assert kinds(lacking(first, third)) == ["status", "minute"]
    assert len(lacking(first, second)) < len(lacking(first, third)) / 2


def test_a_page_that_takes_nothing_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(limits, "SLOW_READER_S", 0.01)
    (look,) = looks(1)
    aborted = []

    async def silent():
        await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def serve():
        streams = Streams(lambda: look)
        await streams({"laneway.abort": lambda: aborted.append(1)}, silent, send)
        return streams

    streams = asyncio.run(serve())
    assert (streams.slow_total, streams.open, aborted) == (1, 0, [1])


def test_a_page_is_told_that_the_service_says_nothing(monkeypatch):
    """Also while the watch still asks, and wakes nobody."""
    monkeypatch.setattr(limits, "SILENT_S", 0.01)
    (look,) = looks(1)
    seen, told = iter([look, dataclasses.replace(look, status=None, why="it is silent")]), []

    async def silent():
        await asyncio.Event().wait()

    async def serve():
        streams = Streams(lambda: next(seen))

        async def send(message):
            told.extend(kinds(message.get("body", b"").decode()))
            if "away" in told:
                streams.end()

        async with asyncio.timeout(60):
            await streams({}, silent, send)

    asyncio.run(serve())
    assert told[0] == "status" and "away" in told
