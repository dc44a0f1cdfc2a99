"""Upstreams whose bytes are odd below HTTP's usual use: nobody but their own client pays for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from gateway.upstream.server import ask_server
from gateway.upstream.session import IDLE_CONNECTION_SECONDS, UpstreamSession
from tests.web.clients import ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import (
    chat_stream,
    native_end,
    native_message,
    native_start,
    native_stream,
)
from tests.web.test_upstream_faults import read_request
from tests.wire import check_wire

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
SSE = HEAD % b"text/event-stream"
CHUNKED = SSE + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


@asynccontextmanager
async def odd(serve: Serve) -> AsyncIterator[str]:
    """A server that does for each connection what the test says; its URL."""

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(whole, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def always(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    return serve


def with_length(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def message(text: str) -> bytes:
    return with_length(HEAD % b"application/json", json.dumps(native_message(text)).encode())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


@pytest.mark.parametrize("when", ["with its end", "later"])
async def test_an_answer_that_nobody_asked_for_is_nobodys(
    make_gateway: MakeGateway, when: str
) -> None:
    """Kept alive with its connection, it would be the answer to somebody else's request."""
    begun, over, dropped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if over.is_set():
            writer.write(message("mine"))
            return
        writer.write(CHUNKED + chunk(native_start("first")))
        await begun.wait()
        extra = message("another's")
        writer.write(chunk(native_end()) + LAST + (extra if when == "with its end" else b""))
        await over.wait()
        writer.write(extra if when == "later" else b"")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        dropped.set()

    async with odd(serve) as url:
        gateway = await make_gateway(url=url)
        stream = await gateway.stream(ask())
        await stream.seen(b"first")
        begun.set()
        check_wire(await stream.whole())
        over.set()
        async with asyncio.timeout(IDLE_CONNECTION_SECONDS / 2):
            await dropped.wait()
        assert (await gateway.post(ask(stream=False))).json["content"][0]["text"] == "mine"


NO_STREAMS = {
    "a page with blank lines": b"<!doctype html>\n\n<b>log in</b>\n\n",
    "a page without any": b"<html>" + b"x" * 100_000,
    "text": b"Service Unavailable: try later\n\n",
    "zeros": bytes(200_000),
}


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
@pytest.mark.parametrize("body", NO_STREAMS)
async def test_what_is_no_stream_is_a_bad_gateway_and_not_shown(
    make_gateway: MakeGateway, body: str, dialect: str
) -> None:
    async with odd(always(with_length(SSE, NO_STREAMS[body]))) as url:
        gateway = await make_gateway(url=url, dialect=dialect)
        reply = await gateway.post(ask())
        assert (reply.status, reply.error["type"]) == (502, "api_error")
        await gateway.free()


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_message_that_has_told_its_reason_is_whole_whatever_follows(
    make_gateway: MakeGateway, dialect: str
) -> None:
    """The connection breaks behind the reason and before the end."""
    whole = native_stream("Hi") if dialect == "anthropic" else chat_stream("Hi")
    frames = whole.rstrip().split(b"\n\n")
    reached = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(b"\n\n".join(frames[:-1]) + b"\n\n"))
        await reached.wait()

    async with odd(serve) as url:
        gateway = await make_gateway(url=url, dialect=dialect)
        stream = await gateway.stream(ask())
        await stream.seen(b"Hi")
        reached.set()
        assert check_wire(await stream.whole())[-1]["type"] == "message_stop"
        await gateway.free()


@pytest.mark.parametrize(
    ("line", "body", "expected"),
    [
        (b"400 Bad", b'{"error":{"message":"too long"}}', (400, "invalid_request_error")),
        (b"503 Busy", b'{"error":', (529, "overloaded_error")),
        (b"429 Slow\r\nContent-Encoding: gzip", b"no gzip", (529, "overloaded_error")),
    ],
)
async def test_a_refusal_counts_even_if_its_body_breaks_off(
    make_gateway: MakeGateway, line: bytes, body: bytes, expected: tuple[int, str]
) -> None:
    answer = b"HTTP/1.1 " + line + b"\r\nContent-Length: 500\r\n\r\n" + body
    async with odd(always(answer)) as url:
        gateway = await make_gateway(url=url)
        reply = await gateway.post(ask())
        assert (reply.status, reply.error["type"]) == expected
        await gateway.free()


async def test_a_server_is_recognised_though_its_answer_comes_in_pieces() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if not asked.startswith(b"GET /props "):
            writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
            return
        # More than one read of a socket takes.
        properties = {"default_generation_settings": {}, "chat_template": "x" * 600_000}
        writer.write(with_length(HEAD % b"application/json", json.dumps(properties).encode()))

    session = UpstreamSession()
    async with odd(serve) as url:
        assert await ask_server(session, URL(url), api_key=None) == "llama.cpp"
    await session.close()
