"""Races and repetitions that cost other systems their slots."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref

import pytest
from aiohttp.http_writer import StreamWriter

from gateway.upstream.session import UpstreamSession
from tests.web.clients import ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import SECONDS, ScriptedUpstream, native_end, native_start
from tests.web.test_leaving import next_one_runs
from tests.wire import check_wire


async def test_a_slot_is_held_until_the_body_has_ended_not_the_headers(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    first = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue", count=2)
    assert len(upstream.arrivals) == 1
    first.write(native_end()).end()
    (await upstream.arrival(2)).answer()
    check_wire(await running.whole())
    check_wire(await waiting.whole())


async def test_the_next_request_goes_up_before_the_one_that_ended_is_tidied_up(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    write = StreamWriter._write

    def noting_write(self: StreamWriter, data: bytes) -> None:
        write(self, data)
        if data.startswith(b"{") or b"\r\n\r\n{" in data:
            happened.append("sent")

    gateway = await make_gateway()
    gateway.service.gateway.observers.add(lambda record: happened.append("tidied"))
    running = await gateway.stream(ask())
    first = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    monkeypatch.setattr(StreamWriter, "_write", noting_write)
    monkeypatch.setattr(StreamWriter, "_writelines", lambda self, data: self._write(b"".join(data)))
    first.write(native_end()).end()
    (await upstream.arrival(2)).answer()
    await running.whole()
    await gateway.until(lambda: "tidied" in happened)
    assert happened[:2] == ["sent", "tidied"]


async def test_nothing_of_a_failed_request_is_kept_behind_it(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    """An exception holds its frames, and they the request with its prompt."""
    errors: list[weakref.ref[Exception]] = []
    gateway = await make_gateway()
    gateway.service.gateway.observers.add(lambda record: errors.append(weakref.ref(record.error)))
    stream = await gateway.stream(ask())
    (await upstream.arrival()).reset()
    await gateway.until(lambda: errors)
    stream.close()
    await gateway.free()
    gc.collect()
    assert errors[0]() is None


async def test_an_upstream_and_a_client_that_die_together_give_one_slot_back_once(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(slots=2)
    for round in range(10):
        stream = await gateway.stream(ask())
        arrival = await upstream.arrival(len(upstream.arrivals) + 1)
        arrival.open().write(native_start())
        await stream.seen(b"Hi")
        arrival.reset()
        if round % 2:
            await asyncio.sleep(0)
        stream.reset()
        await gateway.free()
    upstream.most_at_once = 0
    before = len(upstream.arrivals)
    crowd = [await gateway.stream(ask(str(number))) for number in range(10)]
    for number in range(10):
        (await upstream.arrival(before + number + 1)).answer()
    for stream in crowd:
        check_wire(await stream.whole())
    assert upstream.most_at_once <= 2


async def test_a_client_that_asks_again_has_one_living_request_at_most(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask("runs"))
    first = await upstream.arrival()
    for _ in range(4):
        attempt = await gateway.stream(ask("again"))
        await attempt.seen(b'"position":1')
        await gateway.waits(1)
        attempt.close()
        await gateway.waits(0)
    last = await gateway.stream(ask("again"))
    await last.seen(b"event: queue")
    first.answer()
    (await upstream.arrival(2)).answer()
    check_wire(await last.whole())
    await running.whole()
    assert [arrival.prompt for arrival in upstream.arrivals] == ["runs", "again"]


async def test_a_body_that_never_comes_whole_holds_nothing(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await make_gateway()
    for end in ("close", "reset"):
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST /llm/v1/messages HTTP/1.1\r\nHost: t\r\nContent-Length: 999\r\n\r\n{")
        await writer.drain()
        if end == "reset":
            writer.transport.abort()
        writer.close()
    with caplog.at_level(logging.ERROR):
        await gateway.until(lambda: gateway.service.gateway.bodies.held == 0)
        await next_one_runs(gateway, upstream)
    assert not caplog.records


async def test_a_body_that_stops_coming_is_not_waited_for(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight phones without a network would otherwise hold all that bodies may take together."""
    gateway = await make_gateway({"client": {"write_timeout_seconds": 0.1}})
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /llm/v1/messages HTTP/1.1\r\nHost: t\r\nContent-Length: 999\r\n\r\n{")
    async with asyncio.timeout(SECONDS):
        answer = await reader.read()
    writer.close()
    assert b" 408 " in answer and b'"timeout_error"' in answer
    assert gateway.service.gateway.bodies.held == 0
    await next_one_runs(gateway, upstream)
    assert not any(record.exc_info for record in caplog.records)


async def test_twenty_that_leave_in_every_phase_leave_no_traceback(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await make_gateway(slots=1)
    with caplog.at_level(logging.INFO, "gateway"):
        for round in range(20):
            stream = await gateway.stream(ask(str(round)))
            if round % 4:
                arrival = await upstream.arrival(len(upstream.arrivals) + 1)
                if round % 4 > 1:
                    arrival.open().write(native_start())
                    await stream.seen(b"Hi")
                if round % 4 > 2:
                    arrival.write(native_end())
            (stream.reset if round % 2 else stream.close)()
            await gateway.free()
    assert not any(record.exc_info for record in caplog.records)
    await next_one_runs(gateway, upstream)


async def test_a_native_stream_that_only_pings_after_its_reason_is_ended_for_it(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask())
    stop = native_end().replace(b'event: message_stop\ndata: {"type": "message_stop"}\n\n', b"")
    arrival = (await upstream.arrival()).open().write(native_start() + stop)

    async def ping() -> None:
        while True:
            arrival.write(b'event: ping\ndata: {"type": "ping"}\n\n')
            await asyncio.sleep(0.05)

    pinging = asyncio.create_task(ping())
    async with asyncio.timeout(3):
        events = check_wire(await stream.whole())
    pinging.cancel()
    assert events[-1]["type"] == "message_stop"
    await next_one_runs(gateway, upstream)


async def test_no_total_timeout_and_no_hidden_queue_in_the_pool() -> None:
    session = UpstreamSession()
    for http in (session.http, session.fresh):
        assert http.timeout.total is None
        assert http.connector is not None and http.connector.limit == 0
    await session.close()
