"""Whatever an upstream does wrong becomes one status or one error frame, and frees its slot."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway.config import from_mapping
from tests.web.clients import ask
from tests.web.conftest import MakeGateway, mapping
from tests.web.scripted import (
    Arrival,
    ScriptedUpstream,
    chat_stream,
    native_end,
    native_message,
    native_start,
    native_stream,
)
from tests.web.test_leaving import next_one_runs
from tests.wire import check_wire

Fault = Callable[[Arrival], object]
Leave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOADING = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
TOO_LONG = (
    b'{"error":{"message":"prompt is too long: 9 > 8 maximum","type":"invalid_request_error"}}'
)


def status(code: int, body: bytes = b"", **headers: str) -> Fault:
    return lambda arrival: (
        arrival.open(code, "application/json", **headers).write(body or b"{}").end()
    )


FAULTS: dict[str, tuple[Fault, int, str]] = {
    "400 with a reason": (status(400, TOO_LONG), 400, "invalid_request_error"),
    "404": (status(404, b'{"error":"no such model"}'), 404, "not_found_error"),
    "413": (status(413), 413, "request_too_large"),
    "401": (status(401, b'{"error":{"message":"bad key sk-secret"}}'), 502, "api_error"),
    "403": (status(403, b'{"error":{"message":"bad key sk-secret"}}'), 502, "api_error"),
    "429": (status(429, b'{"error":{"message":"slow down"}}'), 529, "overloaded_error"),
    "503": (status(503, LOADING, Retry_After="5"), 529, "overloaded_error"),
    "500": (status(500, b"<html>oops</html>"), 502, "api_error"),
    "redirect": (status(302, Location="http://127.0.0.1:1/"), 502, "api_error"),
    "reset before the headers": (lambda a: a.reset(), 502, "api_error"),
    "nothing": (lambda a: a.open().end(), 502, "api_error"),
    "no stream at all": (
        lambda a: a.open(content_type="text/html").write(b"<html>hello</html>").end(),
        502,
        "api_error",
    ),
    "an error first": (
        lambda a: a.open().write(b'data: {"error":{"message":"full","code":503}}\n\n').end(),
        529,
        "overloaded_error",
    ),
}


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_before_the_stream_is_a_status(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, fault: str, dialect: str
) -> None:
    act, expected, type = FAULTS[fault]
    gateway = await make_gateway(dialect=dialect)
    asking = asyncio.create_task(gateway.post(ask()))
    act(await upstream.arrival())
    reply = await asking
    assert (reply.status, reply.error["type"]) == (expected, type)
    assert "sk-secret" not in reply.error["message"] and "<html" not in reply.error["message"]
    await next_one_runs(gateway, upstream)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_same_fault_after_waiting_is_one_error_frame(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, fault: str
) -> None:
    act, _, type = FAULTS[fault]
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    first.answer()
    act(await upstream.arrival(2))
    events = check_wire(await waiting.whole())
    assert [event["type"] for event in events] == ["error"]
    assert events[0]["error"]["type"] == type
    assert events[0]["request_id"] == waiting.head["request-id"]
    await running.whole()
    await next_one_runs(gateway, upstream)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_same_fault_without_a_stream_is_a_status(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, fault: str
) -> None:
    act, expected, type = FAULTS[fault]
    gateway = await make_gateway(dialect="openai")
    asking = asyncio.create_task(gateway.post(ask(stream=False)))
    act(await upstream.arrival())
    reply = await asking
    assert (reply.status, reply.error["type"]) == (expected, type)
    await next_one_runs(gateway, upstream)


async def test_what_the_upstream_says_about_the_request_is_kept(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    asking = asyncio.create_task(gateway.post(ask()))
    status(400, TOO_LONG)(await upstream.arrival())
    assert (await asking).error["message"] == "prompt is too long: 9 > 8 maximum"


async def test_the_upstreams_retry_after_is_kept(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    asking = asyncio.create_task(gateway.post(ask()))
    status(503, LOADING, Retry_After="5")(await upstream.arrival())
    assert (await asking).headers["retry-after"] == "5"


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
@pytest.mark.parametrize("how", ["end", "reset"])
async def test_a_stream_that_breaks_off_ends_in_an_error_frame(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, dialect: str, how: str
) -> None:
    gateway = await make_gateway(dialect=dialect)
    stream = await gateway.stream(ask())
    begun = native_start() if dialect == "anthropic" else chat_stream("Hi").split(b"\n\n")[0]
    arrival = (await upstream.arrival()).open().write(begun + b"\n\n"[: 4 * (dialect == "openai")])
    await stream.seen(b"Hi")
    getattr(arrival, how)()
    events = check_wire(await stream.whole())
    assert events[-1]["error"]["type"] == "api_error"
    await next_one_runs(gateway, upstream)


async def test_no_first_byte_is_a_timeout(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(timeouts={"first_byte_seconds": 0.3})
    waiting = [asyncio.create_task(gateway.post(ask(stream=False)))]
    await upstream.arrival()
    reply = await waiting[0]
    assert (reply.status, reply.error["type"]) == (504, "timeout_error")
    stream = await gateway.stream(ask())
    (await upstream.arrival(2)).open()
    events = check_wire(await stream.whole())
    assert events[-1]["error"]["type"] == "timeout_error"
    await next_one_runs(gateway, upstream)


@pytest.mark.parametrize("opens", [False, True])
async def test_patience_with_the_first_byte_does_not_depend_on_the_keep_alive(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, opens: bool
) -> None:
    gateway = await make_gateway(timeouts={"first_byte_seconds": 0.3})
    config = gateway.service.config
    seldom = dataclasses.replace(config.queue_events, keepalive_seconds=60)
    patient = dataclasses.replace(config.client, write_timeout_seconds=600)
    await gateway.service.reload(dataclasses.replace(config, queue_events=seldom, client=patient))
    asking = asyncio.create_task(gateway.post(ask()))
    arrival = await upstream.arrival()
    if opens:
        arrival.open()
    async with asyncio.timeout(10):
        reply = await asking
    assert "timeout_error" in reply.body.decode()


async def test_silence_in_the_stream_is_bridged_and_then_a_timeout(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(timeouts={"idle_seconds": 0.7})
    stream = await gateway.stream(ask())
    (await upstream.arrival()).open().write(native_start())
    await stream.seen(b"event: ping", count=2)
    events = check_wire(await stream.whole())
    assert events[-1]["error"]["type"] == "timeout_error"
    await next_one_runs(gateway, upstream)


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_whole_answer_that_falls_silent_is_given_up_after_its_idle_time(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, dialect: str
) -> None:
    """And not after the much longer time for a first byte."""
    timeouts = {"first_byte_seconds": 60, "idle_seconds": 0.3}
    gateway = await make_gateway(dialect=dialect, timeouts=timeouts)
    asking = asyncio.create_task(gateway.post(ask(stream=False)))
    (await upstream.arrival()).open(content_type="application/json").write(b'{"id": "')
    async with asyncio.timeout(5):
        reply = await asking
    assert (reply.status, reply.error["type"]) == (504, "timeout_error")
    await next_one_runs(gateway, upstream)


async def test_silence_before_the_answer_opens_the_response_and_keeps_it_alive(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask())
    arrival = await upstream.arrival()
    await stream.seen(b": keep-alive\n\n", count=2)
    assert b"event:" not in stream.raw
    arrival.answer()
    check_wire(await stream.whole())


@pytest.mark.parametrize("ends", ["with the grant", "with the headers"])
async def test_one_silence_that_follows_another_is_bridged_as_if_they_were_one(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, ends: str
) -> None:
    """Each lasts for more than half of the time until a keep-alive is due, in the second."""
    keepalive = 1.6  # far enough from the half seconds at which a waiting client is looked at
    gateway = await make_gateway(
        {"queue_events": {"keepalive_seconds": keepalive}, "client": {"write_timeout_seconds": 60}}
    )
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    if ends == "with the grant":
        stream, begins = await gateway.stream(ask()), b"event: queue"
    else:
        stream, begins = running, b": keep-alive"
    await stream.seen(begins)
    await asyncio.sleep(0.6 * keepalive)
    if ends == "with the grant":
        first.answer()
        await running.whole()
        last = await upstream.arrival(2)
    else:
        last = first.open()
    await stream.seen(b": keep-alive", count=1 if ends == "with the grant" else 2)
    (before, _), (after, _) = stream.arrived[-2:]
    assert after - before < 1.3 * keepalive
    last.reset()
    await stream.whole()


async def test_keep_alives_never_cut_a_frame(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask())
    whole = native_stream("Hi")
    cut = whole.index(b"content_block_delta") + 30
    arrival = (await upstream.arrival()).open().write(whole[:cut])
    await stream.seen(b"event: ping", count=2)
    arrival.write(whole[cut:]).end()
    body = await stream.whole()
    assert body.replace(b'event: ping\ndata: {"type": "ping"}\n\n', b"") == whole


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_an_upstream_that_says_it_is_done_is_not_waited_for(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, dialect: str
) -> None:
    gateway = await make_gateway(dialect=dialect)
    stream = await gateway.stream(ask())
    arrival = await upstream.arrival()
    arrival.open().write(native_stream("Hi") if dialect == "anthropic" else chat_stream("Hi"))
    async with asyncio.timeout(1):
        check_wire(await stream.whole())
        await arrival.left.wait()
    await next_one_runs(gateway, upstream)


AS_BY_DEFAULT = {
    "queue_events": {"keepalive_seconds": 10},
    "client": {"write_timeout_seconds": 60},
}


@pytest.mark.parametrize("config", [{}, AS_BY_DEFAULT], ids=["often", "seldom"])
async def test_a_reason_to_stop_without_an_end_gets_a_short_grace(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, config: dict[str, Any]
) -> None:
    """However seldom somebody looks."""
    gateway = await make_gateway(config, dialect="openai")
    stream = await gateway.stream(ask())
    (await upstream.arrival()).open().write(chat_stream("Hi").replace(b"data: [DONE]\n\n", b""))
    async with asyncio.timeout(3):
        events = check_wire(await stream.whole())
    assert events[-1]["type"] == "message_stop"
    await next_one_runs(gateway, upstream)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_an_answer_compressed_against_our_wish_is_read_all_the_same(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, encoding: str
) -> None:
    gateway = await make_gateway()
    squeeze = gzip.compress if encoding == "gzip" else zlib.compress
    stream = await gateway.stream(ask(), accept_encoding="gzip, br")
    arrival = await upstream.arrival()
    assert arrival.request.headers["Accept-Encoding"] == "identity"
    arrival.open(Content_Encoding=encoding).write(squeeze(native_stream("Hi"))).end()
    check_wire(await stream.whole())
    assert "content-encoding" not in stream.head
    asking = asyncio.create_task(gateway.post(ask(stream=False)))
    whole = json.dumps(native_message("Hello")).encode()
    arrival = await upstream.arrival(2)
    arrival.open(content_type="application/json", Content_Encoding=encoding)
    arrival.write(squeeze(whole)).end()
    reply = await asking
    assert reply.body == whole and int(reply.headers["content-length"]) == len(whole)


async def test_a_stream_that_nobody_asked_for_is_collected(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(dialect="openai")
    asking = asyncio.create_task(gateway.post(ask(stream=False)))
    (await upstream.arrival()).open().write(chat_stream("Hello")).end()
    reply = await asking
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["content"] == [{"type": "text", "text": "Hello"}]


@pytest.fixture
async def rude() -> AsyncIterator[list[bytes]]:
    """A server that answers each connection with the next of these bytes, and closes it."""
    answers: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    answers.append(f"{server.sockets[0].getsockname()[1]}".encode())
    async with server:
        yield answers


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
async def test_what_is_not_even_http_is_a_bad_gateway(
    make_gateway: MakeGateway, rude: list[bytes], garbage: bytes
) -> None:
    port = int(rude.pop())
    gateway = await make_gateway(url=f"http://127.0.0.1:{port}")
    rude.append(garbage)
    reply = await gateway.post(ask(stream=False))
    assert (reply.status, reply.error["type"]) == (502, "api_error")
    assert str(port) not in reply.error["message"]
    await gateway.free()


async def close_on_the_next_request(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def close_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As llama.cpp does after each stream, whatever its headers say: the next in line is just
    being sent up then.  It says goodbye first (``shutdown``), so no request meets a bare reset."""
    writer.write_eof()


@pytest.mark.parametrize("leave", [close_on_the_next_request, close_at_once])
async def test_a_connection_that_has_gone_stale_is_no_failure(
    make_gateway: MakeGateway, leave: Leave
) -> None:
    """A server that promises to keep its connections open, and does not."""
    served, end = 0, asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        await read_request(reader)
        served += 1
        length = len(native_start() + native_end())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(f"Content-Length: {length}\r\n\r\n".encode() + native_start())
        await end.acquire()
        writer.write(native_end())
        await leave(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gateway = await make_gateway(url=url, slots=1)
        streams = [await gateway.stream(ask()) for _ in range(4)]
        for stream in streams[1:]:
            await stream.seen(b"event: queue")
        for stream in streams:
            await stream.seen(b"text_delta")
            end.release()
            assert check_wire(await stream.whole())[-1]["type"] == "message_stop"
    assert served == 4


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if b"content-length" in line.lower()
    )
    return await reader.readexactly(length)


async def test_all_who_wait_hear_at_once_that_the_upstream_is_down(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    waiting = [await gateway.stream(ask()) for _ in range(5)]
    for stream in waiting:
        await stream.seen(b"event: queue")
    nowhere = from_mapping(mapping(url="http://127.0.0.1:1"))
    await gateway.service.reload(nowhere)
    first.answer()
    async with asyncio.timeout(2):
        for stream in waiting:
            events = check_wire(await stream.whole())
            assert events[0]["error"]["type"] == "api_error"
    await running.whole()
    await gateway.free()
