"""What aiohttp must be like for tokens to be delivered without a task, on a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientResponse
from multidict import CIMultiDict
from yarl import URL

from gateway.errors import UpstreamFailed
from gateway.upstream.call import UpstreamCall
from gateway.upstream.protocol import UpstreamProtocol
from gateway.upstream.session import READ_BUFFER_BYTES, UpstreamSession

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Upstream:
    """Accepts one request; the test writes its answer."""

    def __init__(self) -> None:
        self.writer: asyncio.Future[asyncio.StreamWriter] = asyncio.Future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        self.writer.set_result(writer)


@asynccontextmanager
async def open_call() -> AsyncIterator[tuple[UpstreamCall, asyncio.StreamWriter]]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    session = UpstreamSession()
    call = UpstreamCall(
        session,
        "u",
        URL(f"http://127.0.0.1:{port}/"),
        headers=CIMultiDict(),
        body=b"{}",
        connect_seconds=5,
    )
    with call:
        await call.send()
        writer = await upstream.writer
        yield call, writer
    writer.close()
    await session.close()
    server.close()
    await server.wait_closed()


class Sink:
    """Keeps what it is handed, and tells when it is ``enough``."""

    def __init__(self, enough: Callable[[bytes], bool]) -> None:
        self.data = b""
        self.pieces = 0
        self.got = asyncio.Event()
        self._enough = enough

    def __call__(self, data: bytes) -> bool:
        self.data += data
        self.pieces += 1
        self.got.set()
        return not self._enough(self.data)

    async def next(self) -> None:
        async with asyncio.timeout(5):
            await self.got.wait()
        self.got.clear()


def never(data: bytes) -> bool:
    return False


async def test_connections_are_of_our_own_kind() -> None:
    async with open_call() as (call, _):
        answer: ClientResponse = call._answer()
        assert answer.connection is not None
        assert isinstance(answer.connection.protocol, UpstreamProtocol)


async def test_each_piece_is_delivered_as_it_comes_until_the_end() -> None:
    async with open_call() as (call, writer):
        sink = Sink(never)
        delivering = asyncio.create_task(call.deliver(sink))
        for number in range(1, 4):
            writer.write(chunk(b"piece"))
            await sink.next()
            assert sink.pieces == number
        writer.write(chunk(b"last") + b"0\r\n\r\n")
        await delivering
        assert sink.data == b"piece" * 3 + b"last"


async def test_a_sink_that_has_had_enough_leaves_the_rest_to_be_read() -> None:
    async with open_call() as (call, writer):
        sink = Sink(lambda data: data.endswith(b"1"))
        delivering = asyncio.create_task(call.deliver(sink))
        writer.write(chunk(b"1"))
        await delivering
        writer.write(chunk(b"2"))
        assert (sink.data, await call.read()) == (b"1", b"2")


async def test_leaving_in_mid_delivery_loses_nothing() -> None:
    async with open_call() as (call, writer):
        sink = Sink(never)
        delivering = asyncio.create_task(call.deliver(sink))
        writer.write(chunk(b"1"))
        await sink.next()
        delivering.cancel()
        await asyncio.wait((delivering,))
        writer.write(chunk(b"2") + b"0\r\n\r\n")
        assert (sink.data, await call.read(), await call.read()) == (b"1", b"2", b"")


async def test_more_than_the_buffer_holds_is_all_delivered() -> None:
    """The reader pauses the connection then, and makes more come while it is read."""
    large = b"x" * (READ_BUFFER_BYTES * 5)
    async with open_call() as (call, writer):
        sink = Sink(lambda data: len(data) == len(large) + 4)
        writer.write(chunk(large) + chunk(b"last"))
        async with asyncio.timeout(5):
            await call.deliver(sink)
        assert sink.data == large + b"last"


async def test_a_connection_that_breaks_ends_the_delivery_with_the_upstreams_failure() -> None:
    async with open_call() as (call, writer):
        sink = Sink(never)
        delivering = asyncio.create_task(call.deliver(sink))
        writer.write(chunk(b"1"))
        await sink.next()
        writer.transport.abort()
        with pytest.raises(UpstreamFailed):
            await delivering


async def test_what_a_sink_raises_ends_the_delivery() -> None:
    def refuse(data: bytes) -> bool:
        raise ConnectionResetError

    async with open_call() as (call, writer):
        writer.write(chunk(b"1"))
        with pytest.raises(UpstreamFailed):
            await call.deliver(refuse)
