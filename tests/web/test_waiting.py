"""Waiting in line: who hears what, when, and what becomes of those who leave."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.web.exchange import retry_after
from tests.web.clients import Stream, Surface, ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import ScriptedUpstream, native_end, native_start
from tests.wire import check_wire


async def line_of(gateway: Surface, upstream: ScriptedUpstream, count: int) -> list[Stream]:
    """One that runs and ``count`` that wait, in order."""
    streams = []
    for number in range(count + 1):
        streams.append(await gateway.stream(ask(str(number))))
        if number == 0:
            await upstream.arrival(1)
        else:
            await streams[-1].seen(b"event: queue")
    return streams


def changes(places: list[int]) -> list[int]:
    """Without the repetitions that keep a stream alive."""
    return [place for index, place in enumerate(places) if index == 0 or place != places[index - 1]]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_waiting_stream_counts_down_to_its_answer(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, dialect: str
) -> None:
    gateway = await make_gateway(dialect=dialect)
    streams = await line_of(gateway, upstream, 3)
    for number in range(1, 5):
        (await upstream.arrival(number)).answer(f"answer {number}")
        for place, stream in enumerate(streams[number + 1 :], start=1):
            await stream.seen(f'"position":{place},'.encode())
    bodies = [await stream.whole() for stream in streams]
    assert streams[0].places == []
    assert [changes(stream.places) for stream in streams[1:]] == [[1], [2, 1], [3, 2, 1]]
    for number, body in enumerate(bodies, start=1):
        events = check_wire(body, model="m")
        assert events[0]["type"] == "message_start"
        assert f"answer {number}".encode() in body
        assert b"event: queue" not in body[body.index(b"message_start") :]
    assert [arrival.prompt for arrival in upstream.arrivals] == ["0", "1", "2", "3"]
    assert upstream.most_at_once == 1


async def test_the_waiting_response_opens_at_once_and_as_the_proxy_needs_it(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    begun = time.monotonic()
    _, waiting = await line_of(gateway, upstream, 1)
    assert time.monotonic() - begun < 1
    assert waiting.status == 200
    assert waiting.head["content-type"] == "text/event-stream; charset=utf-8"
    assert waiting.head["cache-control"] == "no-cache, no-transform"
    assert waiting.head["x-accel-buffering"] == "no"
    assert waiting.head["request-id"].startswith("req_")
    assert "content-length" not in waiting.head
    for number in (1, 2):
        (await upstream.arrival(number)).answer()


async def test_a_request_that_finds_a_free_slot_sees_no_queue_frame(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask())
    (await upstream.arrival()).answer()
    body = await stream.whole()
    check_wire(body)
    assert b"queue" not in body and body.startswith(b"event: message_start")


async def test_frames_reach_the_client_as_they_are_written(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    stream = await gateway.stream(ask())
    arrival = (await upstream.arrival()).open().write(native_start("first"))
    await stream.seen(b"first")
    assert not stream.raw.endswith(b"0\r\n\r\n")
    arrival.write(native_end()).end()
    await stream.whole()


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("stream", [True, False])
async def test_whoever_leaves_the_line_never_reaches_the_upstream(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, leave: str, stream: bool
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask("first"))
    first = await upstream.arrival()
    leaver = await gateway.stream(ask("leaver", stream=stream))
    await gateway.waits(1)
    stayer = await gateway.stream(ask("stayer"))
    await stayer.seen(b'"position":2')
    getattr(leaver, leave)()
    await stayer.seen(b'"position":1')
    first.answer()
    (await upstream.arrival(2)).answer()
    check_wire(await running.whole())
    check_wire(await stayer.whole())
    assert [arrival.prompt for arrival in upstream.arrivals] == ["first", "stayer"]
    await gateway.free()


async def test_leaving_in_the_very_tick_of_the_grant_loses_no_slot(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    """Two hundred rounds: a waiter's connection dies while its slot is being handed to it."""
    gateway = await make_gateway()
    for number in range(200):
        before = len(upstream.arrivals)
        running = await gateway.stream(ask("running"))
        first = await upstream.arrival(before + 1)
        leaver = await gateway.stream(ask("leaver"))
        await leaver.seen(b"event: queue")
        stayer = await gateway.stream(ask("stayer"))
        await stayer.seen(b"event: queue")
        first.answer()
        if number % 2:
            await asyncio.sleep(0)
        leaver.reset()
        while True:
            before += 1
            arrival = await upstream.arrival(before + 1)
            if arrival.prompt == "stayer":
                break
        arrival.answer()
        await running.whole()
        await stayer.whole()
        await gateway.free()


async def test_a_whole_answer_waits_without_a_word_and_tells_how_long(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    whole = asyncio.create_task(gateway.post(ask(stream=False)))
    await gateway.waits(1)
    first.answer()
    (await upstream.arrival(2)).answer("Hello")
    reply = await whole
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-gateway-queue-wait-seconds"]) > 0
    assert reply.json["content"] == [{"type": "text", "text": "Hello"}]
    await running.whole()


async def test_a_place_is_repeated_to_keep_the_stream_alive(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    _, waiting = await line_of(gateway, upstream, 1)
    await waiting.seen(b'"position":1', count=4)
    for number in (1, 2):
        (await upstream.arrival(number)).answer()
    check_wire(await waiting.whole())


@pytest.mark.parametrize(
    ("form", "frame"),
    [("comment", b": queue position=1 queue_length=1"), ("off", b": keep-alive\n\n")],
)
async def test_a_client_may_ask_for_another_form(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, form: str, frame: bytes
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    (first := await upstream.arrival())
    waiting = await gateway.stream(ask(), x_gateway_queue_events=form)
    await waiting.seen(frame)
    first.answer()
    (await upstream.arrival(2)).answer()
    body = await waiting.whole()
    assert b"event: queue" not in body
    check_wire(body)
    await running.whole()


async def test_a_form_nobody_knows_is_a_bad_request(make_gateway: MakeGateway) -> None:
    gateway = await make_gateway()
    reply = await gateway.post(ask(), x_gateway_queue_events="loud")
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")


async def test_a_full_line_refuses_with_a_status_and_advice(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(queue={"max_waiting": 1})
    streams = await line_of(gateway, upstream, 1)
    reply = await gateway.post(ask())
    assert (reply.status, reply.error["type"]) == (529, "overloaded_error")
    assert 1 <= int(reply.headers["retry-after"]) <= 59
    for number, stream in enumerate(streams, start=1):
        (await upstream.arrival(number)).answer()
        await stream.whole()


async def test_a_full_line_advises_to_come_back_when_there_will_be_room(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await make_gateway(queue={"max_waiting": 0})
    (only,) = gateway.service.gateway.directory
    running = await gateway.stream(ask())
    await upstream.arrival()
    assert only.pool.next_grant_seconds() is None
    assert (await gateway.post(ask())).headers["retry-after"] == "10"
    monkeypatch.setattr(only.pool, "next_grant_seconds", lambda: 22.3)
    assert (await gateway.post(ask())).headers["retry-after"] == "23"
    upstream.arrivals[0].answer()
    await running.whole()


@pytest.mark.parametrize(("estimate", "advice"), [(None, 10), (0.0, 1), (22.0, 22), (600.0, 59)])
def test_the_advice_is_whole_seconds_that_every_client_bears(
    estimate: float | None, advice: int
) -> None:
    assert retry_after(estimate) == advice


async def test_one_client_may_not_fill_the_line(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(queue={"max_waiting_per_client": 1})
    streams = await line_of(gateway, upstream, 1)
    reply = await gateway.post(ask())
    assert (reply.status, reply.error["type"]) == (429, "rate_limit_error")
    assert 1 <= int(reply.headers["retry-after"]) <= 59
    for number, stream in enumerate(streams, start=1):
        (await upstream.arrival(number)).answer()
        await stream.whole()


async def test_whoever_waits_too_long_is_told_and_never_sent_up(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(queue={"max_wait_seconds": 0.3})
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    waiting = await gateway.stream(ask())
    whole = await gateway.post(ask(stream=False))
    assert (whole.status, whole.error["type"]) == (529, "overloaded_error")
    events = check_wire(await waiting.whole())
    assert events[0]["error"]["type"] == "overloaded_error"
    first.answer()
    await running.whole()
    assert len(upstream.arrivals) == 1
