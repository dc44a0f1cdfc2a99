"""The publicly reported cases of translation, through a running gateway over real sockets."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.relay.test_requests import TRANSLATED, assert_matches
from tests.relay.test_stream_cases import CASES, expected, stop_sequences, upstream_bytes
from tests.web.clients import Stream, Surface, ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import Arrival, ScriptedUpstream
from tests.wire import check_expected, check_wire

TOOLS = [
    {"name": "get_a", "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}},
    {"name": "get_b", "input_schema": {"type": "object", "properties": {"y": {"type": "integer"}}}},
]
SMALL = [case for case in CASES if len(case["upstream"]) < 20_000 and "@@" not in case["upstream"]]


async def answered(gateway: Surface, upstream: ScriptedUpstream, case: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {"tools": TOOLS} if case["req"] == "tools" else {}
    if stops := stop_sequences(case):
        fields["stop_sequences"] = stops
    stream = await gateway.stream(ask(**fields))
    arrival = await upstream.arrival(len(upstream.arrivals) + 1)
    arrival.open(content_type=case["content_type"])
    return stream, arrival


async def check(stream: Stream, case: dict[str, Any]) -> None:
    body = await stream.whole()
    check_expected(check_wire(body, model="m"), expected(case))


def write_in(arrival: Arrival, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        arrival.write(data[start : start + size])
    arrival.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_a_stream_arrives_as_expected(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, case: dict[str, Any]
) -> None:
    gateway = await make_gateway(dialect="openai")
    stream, arrival = await answered(gateway, upstream, case)
    arrival.write(upstream_bytes(case)).end()
    await check(stream, case)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["id"])
async def test_a_stream_in_small_pieces_arrives_the_same(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, case: dict[str, Any]
) -> None:
    gateway = await make_gateway(dialect="openai")
    stream, arrival = await answered(gateway, upstream, case)
    write_in(arrival, upstream_bytes(case), 1)
    await check(stream, case)
    chance = random.Random(case["id"])
    stream, arrival = await answered(gateway, upstream, case)
    write_in(arrival, upstream_bytes(case), chance.randint(2, 90))
    await check(stream, case)


@pytest.mark.parametrize("case", TRANSLATED, ids=lambda case: case["id"])
async def test_a_request_reaches_the_upstream_as_expected(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, case: dict[str, Any]
) -> None:
    gateway = await make_gateway(dialect="openai", server="vllm", max_output_tokens=8192)
    headers = {"anthropic_beta": "foo-2026-01-01,bar"}
    asking = asyncio.create_task(gateway.post(case["request"], **headers))
    arrival = await upstream.arrival()
    assert_matches(case["expect"], arrival.json)
    for word in case["absent"]:
        assert word not in arrival.body.decode()
    arrival.answer()
    assert (await asking).status == 200


async def test_a_tool_call_comes_back_under_the_id_the_client_was_told(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    case = next(case for case in CASES if "outside Anthropic's pattern" in case["title"])
    gateway = await make_gateway(dialect="openai")
    stream, arrival = await answered(gateway, upstream, case)
    arrival.write(upstream_bytes(case)).end()
    events = check_wire(await stream.whole())
    use = next(e["content_block"] for e in events if e["type"] == "content_block_start")
    call = {"type": "tool_use", "id": use["id"], "name": use["name"], "input": {"x": "1"}}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "ok"}
    body = ask() | {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    }
    again = await gateway.stream(body)
    arrival = await upstream.arrival(2)
    _, assistant, tool = arrival.json["messages"]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == use["id"]
    arrival.answer()
    await again.whole()
