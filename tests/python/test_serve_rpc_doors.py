"""The gRPC doors of `laneway serve` over a server of nothing: who is let in, and what a message may
be. A call is answered or refused before its message is read where that is possible."""

import asyncio

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

from laneway.errors import Refused  # noqa: E402
from laneway.serve import limits, messages  # noqa: E402
from laneway.serve.problem import Problem  # noqa: E402
from laneway.serve.room import Room  # noqa: E402
from laneway.serve.rpc_doors import RpcDoors  # noqa: E402
from laneway.web.listen import Place  # noqa: E402

KEY = "k" * 32
PROMPT_S = 120.0  # a deadline that only a hang meets


class Echo:
    methods, free = ("Free", "Echo"), ("Free",)

    def __init__(self):
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def answer(self, method, body):
        if body == b"wait":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        if body.startswith(b"problem"):
            raise Problem(409, body.decode())
        return body


def within(work, key=None):
    """Runs work(doors' echo, room, channel) beside an open server."""

    async def main():
        room, echo = Room(), Echo()
        doors = RpcDoors(echo, room, key)
        place = doors.open(Place("127.0.0.1", 0))
        await doors.begin()
        try:
            async with grpc.aio.insecure_channel(place.netloc()) as channel:
                await work(echo, room, channel)
        finally:
            await doors.end()

    asyncio.run(main())


def method(channel, name="Echo"):
    return channel.unary_unary(f"/{messages.SERVICE}/{name}")


async def refusal(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


def test_a_key_is_looked_at_before_a_message_is_read():
    async def work(echo, room, channel):
        silent = channel.stream_unary(f"/{messages.SERVICE}/Echo")

        async def nothing():
            await asyncio.Event().wait()
            yield b""

        for metadata in (
            (),
            (("authorization", f"Bearer {KEY}x"),),
            (("authorization", KEY),),
            2 * (("authorization", f"Bearer {KEY}"),),
        ):
            code, why = await refusal(silent(nothing(), metadata=metadata, timeout=PROMPT_S))
            assert code == grpc.StatusCode.UNAUTHENTICATED and "Bearer KEY" in why
        right = (("authorization", f"Bearer {KEY}"),)
        assert await method(channel)(b"a", metadata=right, timeout=PROMPT_S) == b"a"
        assert await method(channel, "Free")(b"b", timeout=PROMPT_S) == b"b"

    within(work, KEY)


def test_a_message_beyond_the_bound_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES", 1000)

    async def work(echo, room, channel):
        assert await method(channel)(bytes(1000), timeout=PROMPT_S) == bytes(1000)
        code, _ = await refusal(method(channel)(bytes(1001), timeout=PROMPT_S))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED

    within(work)


def test_a_message_that_is_small_only_on_its_way_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES", 10_000)

    async def work(echo, room, channel):
        packed = method(channel)(
            bytes(1 << 20), timeout=PROMPT_S, compression=grpc.Compression.Gzip
        )
        code, _ = await refusal(packed)
        assert code == grpc.StatusCode.UNIMPLEMENTED

    within(work)


def test_a_message_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(limits, "BODY_S", 0.2)

    async def work(echo, room, channel):
        call = channel.stream_unary(f"/{messages.SERVICE}/Echo")(timeout=PROMPT_S)
        code, why = await refusal(call)
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED and "within 0.2 s" in why

    within(work)


def test_a_call_without_a_message_is_refused():
    async def work(echo, room, channel):
        call = channel.stream_unary(f"/{messages.SERVICE}/Echo")(timeout=PROMPT_S)
        await call.done_writing()
        code, why = await refusal(call)
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "no message" in why

    within(work)


def test_all_messages_together_are_bounded_and_their_room_comes_back(monkeypatch):
    monkeypatch.setattr(limits, "BODIES_BYTES", 6)

    async def work(echo, room, channel):
        waiting = method(channel)(b"wait", timeout=PROMPT_S)
        await echo.begun.wait()
        code, why = await refusal(method(channel)(b"abc", timeout=PROMPT_S))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "6 bytes are being answered" in why
        with pytest.raises(Problem):
            room.take(3)  # so does HTTP, which has the same room
        assert await method(channel)(b"ab", timeout=PROMPT_S) == b"ab"
        waiting.cancel()
        await echo.ended.wait()
        assert await method(channel)(b"abcdef", timeout=PROMPT_S) == b"abcdef"

    within(work)


def test_a_long_sentence_is_cut():
    async def work(echo, room, channel):
        long = b"problem " + "ä".encode() * 5000
        code, why = await refusal(method(channel)(long, timeout=PROMPT_S))
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert why.startswith("problem ää") and why.endswith(" …")
        assert len(why.encode()) <= limits.STATUS_BYTES + 4

    within(work)


def test_a_method_that_there_is_not():
    async def work(echo, room, channel):
        code, _ = await refusal(method(channel, "Nothing")(b"", timeout=PROMPT_S))
        assert code == grpc.StatusCode.UNIMPLEMENTED

    within(work)


def test_two_servers_do_not_share_a_port():
    async def main():
        first, second = (RpcDoors(Echo(), Room(), None) for _ in range(2))
        place = first.open(Place("127.0.0.1", 0))
        with pytest.raises(Refused, match=f"cannot listen on {place.netloc()} for gRPC"):
            second.open(place)

    asyncio.run(main())
