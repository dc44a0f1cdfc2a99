"""A client that goes away, or stops reading, frees its slot at once, whatever the phase."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gateway.web.client import ClientStream
from tests.web.clients import SECONDS, Stream, Surface, ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import Arrival, ScriptedUpstream, native_end, native_start
from tests.wire import check_wire


async def next_one_runs(gateway: Surface, upstream: ScriptedUpstream) -> None:
    """The closing check: nothing is held, and one more request succeeds at once."""
    await gateway.free()
    await upstream.idle()
    number = len(upstream.arrivals) + 1
    stream = await gateway.stream(ask("one more"))
    (await upstream.arrival(number)).answer()
    check_wire(await stream.whole())
    await gateway.free()


async def before_headers(arrival: Arrival, stream: Stream) -> None:
    """The upstream has the request and says nothing."""


async def before_first_byte(arrival: Arrival, stream: Stream) -> None:
    arrival.open()
    await stream.seen(b": keep-alive")


async def in_the_stream(arrival: Arrival, stream: Stream) -> None:
    arrival.open().write(native_start())
    await stream.seen(b"Hi")


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("phase", [before_headers, before_first_byte, in_the_stream])
async def test_leaving_closes_the_upstream_and_starts_the_next(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, leave: str, phase
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask("leaver"))
    arrival = await upstream.arrival()
    await phase(arrival, stream)
    next_in_line = await gateway.stream(ask("next"))
    await gateway.waits(1)
    getattr(stream, leave)()
    async with asyncio.timeout(1):
        await arrival.left.wait()
        second = await upstream.arrival(2)
    second.answer()
    check_wire(await next_in_line.whole())
    await next_one_runs(gateway, upstream)


async def test_leaving_without_streaming_is_noticed_as_well(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask(stream=False))
    arrival = await upstream.arrival()
    stream.close()
    async with asyncio.timeout(1):
        await arrival.left.wait()
    await next_one_runs(gateway, upstream)


async def test_one_clients_leaving_does_not_touch_anothers_answer(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask("runs"))
    arrival = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask("waits"))
    await waiting.seen(b"event: queue")
    waiting.reset()
    await gateway.waits(0)
    arrival.write(native_start("more").split(b"\n\n", 2)[2])
    arrival.write(b"").end()
    await running.seen(b"more")
    await running.whole()
    await next_one_runs(gateway, upstream)


@pytest.fixture
async def stalled() -> AsyncIterator[socket.socket]:
    """A socket with the smallest of receive buffers."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        yield connection


async def test_a_reader_that_stalls_is_dropped_and_its_slot_goes_on(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, stalled: socket.socket
) -> None:
    """Within ``write_timeout_seconds``, here one; the upstream never pauses."""
    gateway = await make_gateway(
        {"client": {"write_timeout_seconds": 1, "max_buffered_bytes": 4096}}
    )
    stream = Stream(*await connected(stalled, gateway.port))
    stream.send(
        b'{"model":"m","max_tokens":1,"stream":true,"messages":[{"role":"user","content":"x"}]}', {}
    )
    arrival = (await upstream.arrival()).open().write(native_start())
    stream.writer.transport.pause_reading()
    flood = native_start("x" * 60_000).split(b"\n\n", 2)[2]
    for _ in range(300):
        arrival.write(flood)
    waiting = await gateway.stream(ask("next"))
    async with asyncio.timeout(SECONDS):
        await arrival.left.wait()
    (await upstream.arrival(2)).answer()
    check_wire(await waiting.whole())
    metrics = (await gateway.request("GET", "/metrics", admin=True)).body
    assert b'outcome="client_stalled",upstream="one"} 1.0' in metrics
    stream.writer.transport.abort()
    await next_one_runs(gateway, upstream)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Awaitable[None]]:
    """``await pauses(n)``: until a client that must read first has been looked at n times."""
    looks = asyncio.Semaphore(0)
    check = ClientStream.check

    def noting_check(self: ClientStream) -> None:
        check(self)
        if self.is_full:
            looks.release()

    async def looked_at(times: int) -> None:
        async with asyncio.timeout(SECONDS):
            for _ in range(times):
                await looks.acquire()

    monkeypatch.setattr(ClientStream, "check", noting_check)
    return looked_at


@pytest.mark.parametrize("idle_seconds", [0.1, 120])
@pytest.mark.parametrize("most_buffered", [4096, 1 << 24])
async def test_a_reader_that_pauses_for_a_while_loses_nothing(
    make_gateway: MakeGateway,
    upstream: ScriptedUpstream,
    stalled: socket.socket,
    pauses: Callable[[int], Awaitable[None]],
    most_buffered: int,
    idle_seconds: float,
) -> None:
    """In the stream or, where all of that is buffered, behind its end."""
    gateway = await make_gateway(
        {"client": {"write_timeout_seconds": 2, "max_buffered_bytes": most_buffered}},
        timeouts={"idle_seconds": idle_seconds},
    )
    stream = Stream(*await connected(stalled, gateway.port))
    stream.send(json.dumps(ask()).encode(), {})
    arrival = (await upstream.arrival()).open().write(native_start())
    await stream.seen(b"Hi")
    stream.writer.transport.pause_reading()
    words = native_start("x" * 60_000).split(b"\n\n", 2)[2]
    for _ in range(100):
        arrival.write(words)
    arrival.write(native_end()).end()
    await pauses(3)
    stream.writer.transport.resume_reading()
    events = check_wire(await stream.whole())
    assert events[-1]["type"] == "message_stop"
    assert sum(event["type"] == "content_block_delta" for event in events) == 101
    await next_one_runs(gateway, upstream)


async def test_a_slow_reader_holds_no_slot_once_the_upstream_is_done(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, stalled: socket.socket
) -> None:
    gateway = await make_gateway({"client": {"write_timeout_seconds": 30}})
    stream = Stream(*await connected(stalled, gateway.port))
    stream.writer.transport.pause_reading()
    stream.send(
        b'{"model":"m","max_tokens":1,"stream":true,"messages":[{"role":"user","content":"x"}]}', {}
    )
    arrival = await upstream.arrival()
    arrival.answer("x" * 1_500_000)
    await gateway.free()
    stream.writer.transport.resume_reading()
    events = check_wire(await stream.whole())
    assert len(events[2]["delta"]["text"]) == 1_500_000
    await next_one_runs(gateway, upstream)


async def connected(
    connection: socket.socket, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=connection)
