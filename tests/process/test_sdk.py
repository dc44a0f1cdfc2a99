"""The official Python SDK reads a queued stream whole, with its helper and raw."""

from __future__ import annotations

import asyncio

from anthropic import AsyncAnthropic

from tests.process.conftest import StartGateway
from tests.web.clients import ask
from tests.web.scripted import ScriptedUpstream


def client_of(port: int, **options) -> AsyncAnthropic:
    return AsyncAnthropic(
        base_url=f"http://127.0.0.1:{port}/llm", api_key="any", max_retries=0, **options
    )


QUESTION = {
    "model": "m",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "hi"}],
}


async def test_the_helper_shows_nothing_while_queued_and_then_the_whole_answer(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    async with client_of(gateway.port) as client:

        async def read() -> tuple[list[str], str]:
            async with client.messages.stream(**QUESTION) as stream:
                texts = [text async for text in stream.text_stream]
                return texts, (await stream.get_final_message()).content[0].text

        reading = asyncio.create_task(read())
        await gateway.waits(1)
        first.answer()
        (await upstream.arrival(2)).answer("Hello")
        assert await reading == (["Hello"], "Hello")
    await running.whole()


async def test_raw_events_show_the_queue_as_pings_and_then_the_whole_answer(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    async with client_of(gateway.port) as client:
        opening = asyncio.create_task(client.messages.create(**QUESTION, stream=True))
        await gateway.waits(1)
        stream = await opening
        first.answer()
        (await upstream.arrival(2)).answer("Hello")
        events = [event async for event in stream]
    types = [event.type for event in events]
    assert types[0] == "ping" and types[-1] == "message_stop"
    assert [event.position for event in events if event.type == "ping"][-1] == 1
    text = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert text == "Hello"
    await running.whole()


async def test_a_header_of_the_sdk_chooses_another_form(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    headers = {"x-gateway-queue-events": "comment"}
    async with client_of(gateway.port, default_headers=headers) as client:
        opening = asyncio.create_task(client.messages.create(**QUESTION, stream=True))
        await gateway.waits(1)
        stream = await opening
        first.answer()
        (await upstream.arrival(2)).answer("Hello")
        types = [event.type async for event in stream]
    assert types[0] == "message_start" and "ping" not in types
    await running.whole()
